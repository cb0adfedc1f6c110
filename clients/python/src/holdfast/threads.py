"""Performs the effects of flows with threads and http.client."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from .auth import Auth
from .errors import HoldfastError, invalid_field
from .flow import Answer, Connect, Effect, Flow, NoAnswerError, Request, Run, Send, Signal, Socket, Spawn, T, Wait

# Node's and many other servers close a connection after five idle seconds. A request that meets this would be lost.
IDLE_S_MAX = 4.0


class Service(NamedTuple):
    """Where the service is, and how to speak to it."""

    url: SplitResult
    auth: Auth | None
    tls: ssl.SSLContext | None

    @property
    def origin(self) -> str:
        return f"{self.url.scheme}://{self.url.netloc}"

    @property
    def port(self) -> int:
        return self.url.port or (443 if self.tls else 80)

    def headers(self, request: Request) -> dict[str, str]:
        sent = {"host": self.url.netloc, "accept": "application/json", **request.headers}
        if self.auth is None:
            return sent
        signed = {key: value for key, value in sent.items() if key != "accept"}
        return {**sent, **self.auth(request.method, self.origin + self.path(request), signed, request.body)}

    def path(self, request: Request) -> str:
        return self.url.path.rstrip("/") + request.path

    def socket_headers(self, url: str) -> dict[str, str]:
        # The signature is over the URL with http, not ws.
        return {} if self.auth is None else dict(self.auth("GET", "http" + url[2:], {}, None))


def service_at(url: str, auth: Auth | None, tls: ssl.SSLContext | None) -> Service:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise invalid_field("url", f"must be http or https, such as http://127.0.0.1:4100, got {url!r}")
    if parts.scheme == "https" and tls is None:
        tls = ssl.create_default_context()
    return Service(parts, auth, tls if parts.scheme == "https" else None)


def answer_of(status: int, headers: dict[str, str], body: bytes) -> Answer:
    try:
        return Answer(status, headers, json.loads(body) if body else None)
    except ValueError:
        # It does not come from the service, but from a proxy for example.
        return Answer(status, headers, None)


def reason_of(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__


class _Exchange:
    """One request on its way. The caller stops waiting at any time, whatever the connection hangs in."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.over = threading.Event()
        self.answer: Answer | None = None
        self.error: BaseException | None = None


class _Connection(threading.Thread):
    """One connection to the service, and the thread that uses it."""

    def __init__(self, service: Service, idle: Callable[[_Connection], None]) -> None:
        super().__init__(name="holdfast-connection", daemon=True)
        self._service = service
        self._idle = idle
        self._exchanges: queue.SimpleQueue[_Exchange | None] = queue.SimpleQueue()
        self._http: http.client.HTTPConnection | None = None
        self.idle_since = 0.0
        self.stopped = False
        self.start()

    def submit(self, exchange: _Exchange, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._exchanges.put(exchange)

    def stop(self) -> None:
        """Ends the thread, also if it reads from a connection that hangs."""
        self.stopped = True
        self._exchanges.put(None)
        http = self._http
        sock = None if http is None else http.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(2)

    def run(self) -> None:
        while True:
            try:
                exchange = self._exchanges.get(timeout=IDLE_S_MAX)
            except queue.Empty:
                exchange = None
            if exchange is None:
                self.stopped = True
                self._close()
                return
            try:
                exchange.answer = self._exchange(exchange.request)
            except Exception as error:
                exchange.error = error
                self._close()
            self.idle_since = time.monotonic()
            self._idle(self)
            exchange.over.set()

    def _exchange(self, request: Request) -> Answer:
        service = self._service
        if self._http is None:
            host, port = service.url.hostname or "", service.port
            self._http = (
                http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=service.tls)
                if service.tls
                else http.client.HTTPConnection(host, port, timeout=self._timeout_s)
            )
        elif self._http.sock is not None:
            self._http.sock.settimeout(self._timeout_s)
        self._http.request(request.method, service.path(request), request.body, service.headers(request))
        response = self._http.getresponse()
        body = response.read()
        headers = {key.lower(): value for key, value in response.getheaders()}
        if response.will_close:
            self._close()
        return answer_of(response.status, headers, body)

    def _close(self) -> None:
        if self._http is not None:
            self._http.close()
        self._http = None


class _SocketThread(threading.Thread):
    """Reads a WebSocket. Needs the package websockets."""

    def __init__(self, connection: Any, on_message: Callable[[Any], None], on_closed: Callable[[], None]) -> None:
        super().__init__(name="holdfast-socket", daemon=True)
        self._connection = connection
        self._on_message = on_message
        self._on_closed = on_closed
        self.start()

    def run(self) -> None:
        try:
            for text in self._connection:
                with contextlib.suppress(ValueError):
                    self._on_message(json.loads(text))
        except Exception:  # noqa: S110
            # However the connection ended, the waits must know.
            pass
        self._on_closed()

    def send(self, text: str) -> None:
        with contextlib.suppress(Exception):
            self._connection.send(text)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()


def has_websockets() -> bool:
    try:
        import websockets.sync.client  # noqa: F401
    except ImportError:
        return False
    return True


class ThreadDriver:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._mutex = threading.Lock()
        self._idle: list[_Connection] = []
        self._pid = os.getpid()

    def run(self, flow: Flow[T]) -> T:
        """Runs the flow in this thread."""
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = flow.send(value) if error is None else flow.throw(error)
            except StopIteration as stop:
                result: T = stop.value
                return result
            value, error = None, None
            try:
                value = self._perform(effect)
            except BaseException as raised:
                # The flow gets it, an interruption too: it must give up its place in the queue.
                error = raised

    def close(self) -> None:
        with self._mutex:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.stop()

    def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, Send):
            return self._send(effect)
        if isinstance(effect, Wait):
            return self._wait(effect.ms, effect.signals)
        if isinstance(effect, Run):
            return effect.work()
        if isinstance(effect, Spawn):
            return self.spawn(effect)
        return self._connect(effect)

    def _wait(self, ms: float | None, signals: tuple[Signal, ...]) -> None:
        woken = threading.Event()
        listened = [one.listen(woken.set) for one in signals]
        try:
            woken.wait(None if ms is None else max(0.0, ms / 1_000))
        finally:
            for stop in listened:
                stop()

    def spawn(self, spawn: Spawn) -> Signal:
        done = Signal()

        def run() -> None:
            try:
                self.run(spawn.flow)
            finally:
                done.fire()

        try:
            threading.Thread(target=run, name="holdfast", daemon=not spawn.keeps_alive).start()
        except RuntimeError:
            # The interpreter ends, and starts no threads any more. What must still be sent is sent here.
            if spawn.keeps_alive:
                run()
        return done

    def _send(self, send: Send) -> Answer:
        exchange = _Exchange(send.request)
        connection = self._free_connection()
        connection.submit(exchange, send.timeout_ms / 1_000)
        woken = exchange.over
        listened = [one.listen(woken.set) for one in send.cancel]
        try:
            woken.wait(send.timeout_ms / 1_000)
        finally:
            for stop in listened:
                stop()
            if exchange.answer is None and exchange.error is None:
                connection.stop()
        if exchange.answer is not None:
            return exchange.answer
        if exchange.error is None:
            raise NoAnswerError(f"no answer within {send.timeout_ms:.0f} ms")
        if isinstance(exchange.error, HoldfastError):
            raise exchange.error
        raise NoAnswerError(reason_of(exchange.error)) from exchange.error

    def _free_connection(self) -> _Connection:
        with self._mutex:
            # A forked child has the parent's sockets, but none of its threads.
            if os.getpid() != self._pid:
                self._idle, self._pid = [], os.getpid()
            while self._idle:
                connection = self._idle.pop()
                # A frozen process comes back with connections that the other side has closed.
                if not connection.stopped and time.monotonic() - connection.idle_since < IDLE_S_MAX / 2:
                    return connection
                connection.stop()
        return _Connection(self._service, self._keep)

    def _keep(self, connection: _Connection) -> None:
        with self._mutex:
            self._idle = [one for one in (*self._idle, connection) if not one.stopped]

    def _connect(self, effect: Connect) -> Socket:
        from websockets.sync.client import connect

        seconds = effect.timeout_ms / 1_000
        try:
            headers = self._service.socket_headers(effect.url)
            opened = connect(effect.url, open_timeout=seconds, additional_headers=headers, close_timeout=1)
            # Newer releases want a context manager. Every release has one, which gives the connection.
            connection = opened.__enter__()
        except Exception as error:
            raise NoAnswerError("the WebSocket could not be opened") from error
        return _SocketThread(connection, effect.on_message, effect.on_closed)
