"""The drivers against small servers of this process: what a real socket can do to them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from holdfast import AsyncHoldfast, Holdfast, InvalidRequestError, Patience, UnavailableError, bearer, locked, once
from holdfast.caller import request_of
from holdfast.flow import Answer, NoAnswerError, Send, Signal
from holdfast.threads import ThreadDriver, service_at

try:
    import botocore.session
except ImportError:
    botocore = None

HEALTH = {"status": "ok", "version": "1", "engine": "test"}


def http(body: Any, *, status: str = "200 OK", headers: str = "") -> bytes:
    text = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(text)}\r\n{headers}\r\n".encode() + text


class Server:
    """Answers each request with what `answer` sends on the socket. Counts connections, and keeps what it read."""

    def __init__(self, answer: Callable[[socket.socket, int], None]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self.requests: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while head := self._read(connection):
                self.requests.append(head)
                try:
                    self._answer(connection, len(self.requests))
                except OSError:
                    return

    def _read(self, connection: socket.socket) -> bytes:
        text = b""
        try:
            while not self._is_whole(text) and (part := connection.recv(65_536)):
                text += part
        except OSError:
            return b""
        return text

    def _is_whole(self, text: bytes) -> bool:
        head, found, body = text.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        return bool(found) and len(body) >= (int(length[1]) if length else 0)

    def close(self) -> None:
        self._listener.close()


class DriverTest(unittest.TestCase):
    def setUp(self) -> None:
        # A busy machine may need longer between two calls than a connection is kept.
        for module in ("threads", "aio"):
            patched = mock.patch(f"holdfast.{module}.IDLE_S_MAX", 600.0)
            patched.start()
            self.addCleanup(patched.stop)

    def serve(self, answer: Callable[[socket.socket, int], None]) -> Server:
        server = Server(answer)
        self.addCleanup(server.close)
        return server

    def both(self, server: Server, **options: Any) -> dict[str, Callable[[], Any]]:
        """The same call with each driver."""

        def with_threads() -> Any:
            locks = Holdfast(server.url, "test", push=False, **options)
            return [locks.health(), locks.health()]

        def with_asyncio() -> Any:
            async def calls() -> Any:
                async with AsyncHoldfast(server.url, "test", push=False, **options) as locks:
                    return [await locks.health(), await locks.health()]

            return asyncio.run(calls())

        return {"threads": with_threads, "asyncio": with_asyncio}

    def test_uses_a_connection_again(self) -> None:
        for name, calls in self.both(server := self.serve(lambda sock, _: sock.sendall(http(HEALTH)))).items():
            with self.subTest(driver=name):
                before = server.connections
                calls()
                self.assertEqual(server.connections - before, 1)

    def test_reads_chunks_and_answers_without_a_length(self) -> None:
        text = json.dumps(HEALTH).encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (text[:5], text[5:]))

        def chunked(sock: socket.socket, _: int) -> None:
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")

        def until_closed(sock: socket.socket, _: int) -> None:
            sock.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text)
            sock.close()

        for answer in (chunked, until_closed):
            for name, calls in self.both(self.serve(answer)).items():
                with self.subTest(driver=name, answer=answer.__name__):
                    self.assertEqual(calls()[1].engine, "test")

    def test_repeats_a_request_whose_connection_was_cut(self) -> None:
        def cut_each_second(sock: socket.socket, count: int) -> None:
            if count % 2 == 1:
                sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-le")
                sock.close()
            else:
                sock.sendall(http(HEALTH))

        for name, calls in self.both(self.serve(cut_each_second)).items():
            with self.subTest(driver=name):
                self.assertEqual(calls()[0].engine, "test")

    def test_ends_a_try_in_time_although_the_answer_drips(self) -> None:
        def drip(sock: socket.socket, _: int) -> None:
            for byte in http(HEALTH):
                sock.sendall(bytes([byte]))
                time.sleep(0.1)

        for name, calls in self.both(self.serve(drip), patience=Patience(request_ms=300, retry_ms=300)).items():
            with self.subTest(driver=name):
                began = time.monotonic()
                with self.assertRaises(UnavailableError):
                    calls()
                # The whole answer would take eleven seconds.
                self.assertLess(time.monotonic() - began, 8)

    def test_takes_a_strange_server_for_no_answer(self) -> None:
        for text in (b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", http([])):
            server = self.serve(lambda sock, _, text=text: sock.sendall(text))  # type: ignore[misc]
            for name, calls in self.both(server, patience=Patience(request_ms=500, retry_ms=500)).items():
                with self.subTest(driver=name, text=text), self.assertRaises(UnavailableError):
                    calls()

    def test_names_the_address_if_nobody_listens(self) -> None:
        server = self.serve(lambda *_: None)
        server.close()
        for name, calls in self.both(server, patience=Patience(retry_ms=100)).items():
            with self.subTest(driver=name), self.assertRaisesRegex(UnavailableError, server.url):
                calls()

    def test_gives_a_request_up_when_its_caller_cancels(self) -> None:
        server = self.serve(lambda sock, _: time.sleep(30))
        driver = ThreadDriver(service_at(server.url, None, None))
        cancel = Signal()
        threading.Timer(0.2, cancel.fire).start()
        began = time.monotonic()

        def flow() -> Any:
            answer: Answer = yield Send(request_of("health", {}), 20_000, (cancel,))
            return answer

        with self.assertRaises(NoAnswerError):
            driver.run(flow())
        self.assertLess(time.monotonic() - began, 10)

    def test_refuses_addresses_that_are_none(self) -> None:
        for url in ("", "127.0.0.1:4100", "ftp://x", "http://"):
            with self.assertRaises(InvalidRequestError):
                Holdfast(url, "test")

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_does_not_share_connections_with_a_forked_child(self) -> None:
        server = self.serve(lambda sock, _: sock.sendall(http(HEALTH)))
        locks = Holdfast(server.url, "test", push=False)
        locks.health()
        child = os.fork()
        if child == 0:
            os._exit(0 if locks.health().engine == "test" else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        locks.health()
        self.assertEqual(server.connections, 2)

    def test_sends_a_bearer_token_and_shows_it_nowhere(self) -> None:
        server = self.serve(lambda sock, _: sock.sendall(http(HEALTH)))
        for name, calls in self.both(server, auth=bearer("the-token")).items():
            with self.subTest(driver=name):
                calls()
                self.assertIn(b"authorization: Bearer the-token", server.requests[-1])
        locks = Holdfast(server.url, "test", auth=bearer("the-token"))
        self.assertNotIn("the-token", repr(locks) + repr(vars(locks)))

    @unittest.skipIf(botocore is None, "botocore is not installed")
    def test_signs_with_botocore(self) -> None:
        from holdfast import sigv4

        session = botocore.session.Session()
        session.set_credentials("AKIAEXAMPLE", "secret", "token")
        server = self.serve(lambda sock, _: sock.sendall(http(HEALTH)))
        for name, calls in self.both(server, auth=sigv4(session=session, region="eu-west-1")).items():
            with self.subTest(driver=name):
                calls()
                sent = server.requests[-1].decode().lower()
                self.assertRegex(sent, r"credential=akiaexample/\d{8}/eu-west-1/execute-api/aws4_request")
                self.assertIn("x-amz-security-token: token", sent)
                self.assertRegex(sent, r"signedheaders=\S*host;x-amz-date")


class Context:
    """What a Lambda handler gets."""

    def __init__(self, remaining_ms: int) -> None:
        self._remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._remaining_ms


class HandlerTest(unittest.TestCase):
    """The decorators against a service that refuses, or does not answer."""

    def setUp(self) -> None:
        problem = http(
            {"code": "lock-held", "detail": "It is held.", "retryAfterMs": 1_500, "holders": [], "queueDepth": 0},
            status="409 Conflict",
        )
        self.server = Server(lambda sock, _: sock.sendall(problem))
        self.addCleanup(self.server.close)
        self.locks = Holdfast(self.server.url, "test", push=False)

    def body(self) -> dict[str, Any]:
        sent: dict[str, Any] = json.loads(self.server.requests[0].split(b"\r\n\r\n", 1)[1])
        return sent

    def test_fits_lease_and_wait_into_the_invocation(self) -> None:
        handler = locked(self.locks, lambda event, _: f"wallet:{event['id']}", wait_ms=60_000)(lambda *_: None)
        answer = handler({"id": 42, "httpMethod": "POST"}, Context(10_500))
        self.assertIn(b"/locks/wallet:42/acquire", self.server.requests[0])
        self.assertEqual(self.body()["leaseMs"], 10_000)
        self.assertLessEqual(self.body()["waitMs"], 5_000)
        self.assertEqual((answer["statusCode"], answer["headers"]["retry-after"]), (409, "2"))

    def test_fails_a_batch_and_raises_for_other_sources(self) -> None:
        handler = locked(self.locks, "a")(lambda *_: None)
        batch = {"Records": [{"messageId": "m1", "eventSource": "aws:sqs"}]}
        self.assertEqual(handler(batch, Context(5_000)), {"batchItemFailures": [{"itemIdentifier": "m1"}]})
        with self.assertRaisesRegex(Exception, "It is held"):
            handler({}, Context(5_000))

    def test_says_that_an_event_is_being_worked_on(self) -> None:
        answers = [http({"code": "not-found"}, status="404 Not Found"), http({"code": "lock-held"}, status="409 No")]
        self.server._answer = lambda sock, count: sock.sendall(answers[(count - 1) % 2])
        handler = once(self.locks, "event:1")(lambda *_: None)
        self.assertEqual(handler({"httpMethod": "POST"}, Context(5_000))["statusCode"], 409)


if __name__ == "__main__":
    unittest.main()
