"""Performs the effects of flows with asyncio. HTTP/1.1 is written out here, because the standard library has none."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any

from .auth import Auth
from .flow import Answer, Connect, Effect, Flow, NoAnswerError, Request, Run, Send, Signal, Socket, Spawn, T, Wait
from .threads import IDLE_S_MAX, Service, answer_of, reason_of

# The service's answers are much smaller. More comes from a wrong address.
BODY_BYTES_MAX = 4 * 1024 * 1024

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Socket:
    """A WebSocket. Needs the package websockets."""

    def __init__(self, connection: Any, on_message: Callable[[Any], None], on_closed: Callable[[], None]) -> None:
        self._connection = connection
        self._tasks: set[asyncio.Task[Any]] = set()
        self._begin(self._read(on_message, on_closed))

    async def _read(self, on_message: Callable[[Any], None], on_closed: Callable[[], None]) -> None:
        try:
            async for text in self._connection:
                with contextlib.suppress(ValueError):
                    on_message(json.loads(text))
        except Exception:  # noqa: S110
            # However the connection ended, the waits must know.
            pass
        finally:
            on_closed()

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _quietly(self, work: Coroutine[Any, Any, Any]) -> None:
        with contextlib.suppress(Exception):
            await work

    def send(self, text: str) -> None:
        self._begin(self._quietly(self._connection.send(text)))

    def close(self) -> None:
        self._begin(self._quietly(self._connection.close()))


class AsyncDriver:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[tuple[float, _Streams]] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, flow: Flow[T]) -> T:
        """Runs the flow in this task."""
        self._notice_loop()
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
                value = await self._perform(effect)
            except BaseException as raised:
                # The flow gets it, a cancellation too: it must give up its place in the queue.
                error = raised

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for _, (_, writer) in idle:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _notice_loop(self) -> None:
        # Each asyncio.run has its own loop, and a connection belongs to one of them. A forked child has a new loop too.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._idle = loop, []

    async def _perform(self, effect: Effect) -> Any:
        if isinstance(effect, Send):
            return await self._send(effect)
        if isinstance(effect, Wait):
            return await self._wait(effect.ms, effect.signals)
        if isinstance(effect, Run):
            result = effect.work()
            return await result if inspect.isawaitable(result) else result
        if isinstance(effect, Spawn):
            return self.spawn(effect)
        return await self._connect(effect)

    async def _wait(self, ms: float | None, signals: tuple[Signal, ...]) -> None:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        # A signal may be fired by another thread, which must wake the loop.
        listened = [one.listen(lambda: loop.call_soon_threadsafe(woken.set)) for one in signals]
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(woken.wait(), None if ms is None else max(0.0, ms / 1_000))
        finally:
            for stop in listened:
                stop()

    def spawn(self, spawn: Spawn) -> Signal:
        done = Signal()
        task = asyncio.ensure_future(self.run(spawn.flow))
        self._tasks.add(task)

        def over(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            done.fire()
            if not task.cancelled():
                # Reads the exception, so that it does not count as never retrieved.
                task.exception()

        task.add_done_callback(over)
        return done

    async def _send(self, send: Send) -> Answer:
        exchange = asyncio.ensure_future(self._exchange(send.request))
        given_up = asyncio.ensure_future(self._wait(send.timeout_ms, send.cancel))
        try:
            await asyncio.wait({exchange, given_up}, return_when=asyncio.FIRST_COMPLETED)
            if not exchange.done():
                raise NoAnswerError(f"no answer within {send.timeout_ms:.0f} ms")
            return exchange.result()
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise NoAnswerError(reason_of(error)) from error
        finally:
            exchange.cancel()
            given_up.cancel()

    async def _exchange(self, request: Request) -> Answer:
        service = self._service
        headers = await self._headers(request)
        if request.body is not None or request.method != "GET":
            headers["content-length"] = str(len(request.body or b""))
        lines = [f"{request.method} {service.path(request)} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        reader, writer = await self._streams()
        keeps = False
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (request.body or b""))
            await writer.drain()
            status, received, body, keeps = await _read_answer(reader)
            return answer_of(status, received, body)
        finally:
            if keeps:
                self._idle.append((time.monotonic(), (reader, writer)))
            else:
                writer.close()

    async def _headers(self, request: Request) -> dict[str, str]:
        auth: Auth | None = self._service.auth
        if auth is None:
            return self._service.headers(request)
        # It may ask another service for credentials.
        return await asyncio.to_thread(self._service.headers, request)

    async def _streams(self) -> _Streams:
        while self._idle:
            since, (reader, writer) = self._idle.pop()
            if time.monotonic() - since < IDLE_S_MAX / 2 and not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        service = self._service
        return await asyncio.open_connection(service.url.hostname, service.port, ssl=service.tls)

    async def _connect(self, effect: Connect) -> Socket:
        from websockets.asyncio.client import connect

        seconds = effect.timeout_ms / 1_000
        try:
            headers = await asyncio.to_thread(self._service.socket_headers, effect.url)
            connection = await connect(effect.url, open_timeout=seconds, additional_headers=headers, close_timeout=1)
        except Exception as error:
            raise NoAnswerError("the WebSocket could not be opened") from error
        return _Socket(connection, effect.on_message, effect.on_closed)


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes, bool]:
    """Status, headers, body, and whether the connection may be used again."""
    version, status, *_ = (await _line(reader)).split(" ", 2)
    headers: dict[str, str] = {}
    while line := await _line(reader):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    keeps = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    if int(status) in (204, 304):
        return int(status), headers, b"", keeps
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b""
        while size := int((await _line(reader)).split(";")[0], 16):
            body += await reader.readexactly(_bounded(len(body) + size) - len(body))
            await _line(reader)
        while await _line(reader):
            pass
        return int(status), headers, body, keeps
    if "content-length" in headers:
        return int(status), headers, await reader.readexactly(_bounded(int(headers["content-length"]))), keeps
    return int(status), headers, await reader.read(BODY_BYTES_MAX), False


async def _line(reader: asyncio.StreamReader) -> str:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise EOFError("the connection was closed")
    return line.decode("latin-1").rstrip("\r\n")


def _bounded(size: int) -> int:
    if not 0 <= size <= BODY_BYTES_MAX:
        raise ValueError(f"an answer of {size} bytes is not the service's")
    return size
