"""Waiting by push: one WebSocket for all waits of a client. It is opened after the first of them has waited a while."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from .caller import Caller, Policy, read, request_of
from .contract import Ticket
from .errors import HoldfastError
from .flow import Clock, Connect, Flow, NoAnswerError, Signal, Socket, Spawn, Wait

# The time for a ticket, and then for the connection. Meanwhile the waits poll, so none loses its place.
OPEN_MS_MAX = 10_000
# API Gateway closes a connection after ten minutes without a message. Two pings fit into that time.
PING_EVERY_MS = 240_000
# If the first connections all fail, a proxy probably blocks WebSockets, and the client stops trying.
FAILURES_MAX = 3
# A later try would fail too: the service has no tickets, or the caller may not have one.
_FINAL = {"not-found", "method-not-allowed", "forbidden", "unauthorized"}


@dataclass(frozen=True)
class Heard:
    """What the service said about a parked wait."""

    granted: Signal = field(default_factory=Signal)
    ended: Signal = field(default_factory=Signal)


class ParkingSocket:
    """An open connection that waits are parked on."""

    def __init__(self, connection_id: str) -> None:
        self.connection_id = connection_id
        self.closed = Signal()
        self._mutex = threading.Lock()
        self._expected: dict[str, Heard] = {}

    def expect(self, lease_id: str) -> Heard:
        """Listens for messages about this lease, until it is forgotten."""
        with self._mutex:
            return self._expected.setdefault(lease_id, Heard())

    def forget(self, lease_id: str) -> None:
        with self._mutex:
            self._expected.pop(lease_id, None)

    def receive(self, message: Any) -> None:
        """A message of the service. It may come twice, or after its waiter has left."""
        if not isinstance(message, dict):
            return
        with self._mutex:
            heard = self._expected.get(str(message.get("leaseId")))
        if heard is not None and message.get("type") == "granted":
            heard.granted.fire()
        elif heard is not None and message.get("type") == "wait-ended":
            heard.ended.fire()


class Sockets:
    def __init__(self, namespace: str, clock: Clock, caller: Caller, is_possible: bool) -> None:
        self._namespace = namespace
        self._clock = clock
        self._caller = caller
        # False if only long polling works. Once false, it stays false for the life of the client.
        self.is_possible = is_possible
        self._mutex = threading.Lock()
        self._failures = 0
        self._has_served = False
        self._waits = 0
        self._opening: Signal | None = None
        self._live: tuple[ParkingSocket, Socket] | None = None

    def join(self) -> None:
        """A wait has begun. The socket stays open while there is one."""
        with self._mutex:
            self._waits += 1

    def leave(self) -> None:
        with self._mutex:
            self._waits -= 1
            idle = self._waits == 0
        if idle:
            self.close_live()

    def open(self, within_ms: float, cancel: Signal) -> Flow[ParkingSocket | None]:
        """The open socket. None if it is not open in time: the caller polls, and the opening goes on meanwhile."""
        with self._mutex:
            if self._live is not None:
                return self._live[0]
            opening = self._opening
            if not self.is_possible:
                return None
            is_first = opening is None
            if opening is None:
                opening = self._opening = Signal()
        if is_first:
            yield Spawn(self._begin(opening))
        yield Wait(within_ms, (opening, cancel))
        live = self._live
        return None if live is None else live[0]

    def served(self) -> None:
        self._has_served = True

    def discard(self, parking: ParkingSocket) -> None:
        """The service does not know this connection."""
        self._fail()
        if self._live is not None and self._live[0] is parking:
            self.close_live()

    def close_live(self) -> None:
        with self._mutex:
            live, self._live = self._live, None
        if live is not None:
            live[0].closed.fire()
            live[1].close()

    def _fail(self) -> None:
        self._failures += 1
        if not self._has_served and self._failures >= FAILURES_MAX:
            self.is_possible = False

    def _begin(self, opening: Signal) -> Flow[None]:
        live: tuple[ParkingSocket, Socket] | None = None
        try:
            live = yield from self._connect()
        except HoldfastError as error:
            # A ticket that is late says only that the service is busy.
            if error.code in _FINAL:
                self.is_possible = False
        except NoAnswerError:
            self._fail()
        finally:
            with self._mutex:
                self._opening = None
                self._live = live
            opening.fire()
        while live is not None and not live[0].closed.fired:
            if self._waits == 0:
                self.close_live()
            yield Wait(PING_EVERY_MS, (live[0].closed,))
            if not live[0].closed.fired:
                live[1].send("ping")

    def _connect(self) -> Flow[tuple[ParkingSocket, Socket]]:
        policy = Policy(deadline_ms=OPEN_MS_MAX, attempt_ms=OPEN_MS_MAX, retry_ms=0)
        answer = yield from self._caller.call(request_of("createTicket", {"ns": self._namespace}, {}), policy)
        ticket = read(Ticket.read, answer.body)
        connected = Signal()
        parking: list[ParkingSocket] = []

        def on_message(message: Any) -> None:
            if parking:
                parking[0].receive(message)
            elif isinstance(message, dict) and message.get("type") == "connected":
                parking.append(ParkingSocket(str(message["connectionId"])))
                connected.fire()

        def on_closed() -> None:
            connected.fire()
            for one in parking:
                with self._mutex:
                    if self._live is not None and self._live[0] is one:
                        self._live = None
                one.closed.fire()

        joint = "&" if "?" in ticket.url else "?"
        url = f"{ticket.url}{joint}ticket={ticket.ticket}"
        socket: Socket = yield Connect(url, OPEN_MS_MAX, on_message, on_closed)
        # The service answers any message with the connection id.
        socket.send("hello")
        yield Wait(OPEN_MS_MAX, (connected,))
        if not parking or parking[0].closed.fired:
            socket.close()
            raise NoAnswerError("the WebSocket did not open in time")
        return parking[0], socket
