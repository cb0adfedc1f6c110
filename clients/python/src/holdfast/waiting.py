"""Takes a lock: asks, waits in the queue, and is sure that the grant is still valid when the caller gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from .caller import Caller, Policy, Success, has_fired, pause, read
from .contract import POLL_MS_MAX, Waiting
from .errors import HoldfastError, LeaseLostError, ThrottledError, UnavailableError, WaitTimeoutError
from .flow import Clock, Flow, Mark, Request, Signal, Wait
from .sockets import ParkingSocket, Sockets

# If a lease ended before its grant arrived, the client asks for the lock again. More often, something else is wrong.
LEASES_MAX = 3
# If the service answers "waiting" at once and does not keep the request open, this pause prevents a busy loop.
POLL_MS_MIN = 100
# From about this time on, a parked wait costs less than an open request.
PARK_AFTER_MS = 2_000
# A wait that could not be parked polls for this long, and then tries again.
UNPARKED_POLL_MS = 10_000
# A waiter may be absent for 5 s. This leaves time for the request that parks it, or for the next poll.
SILENT_MS_MAX = 2_000
# A message may be lost, so a parked wait asks again after this time, or up to a fifth earlier.
LOOK_MS_MAX = 25_000
# The wait ends this long before the deadline, so that the answer still arrives. At most a quarter of a short deadline.
ANSWER_MS = 500
# A caller that was interrupted gives its place up first, if that takes no longer than this.
ABANDON_MS_MAX = 250


@dataclass(frozen=True)
class Patience:
    """How long the client tries and waits for answers."""

    # For one answer. If its store does not answer, the service sends a 503 after about nine seconds.
    request_ms: float = 10_000
    # For one call with all its retries, if it is not a wait for a lock.
    retry_ms: float = 5_000
    # For an acquire, after its wait: no retry begins later, and an answer on its way may take as long again.
    try_ms: float = 1_000
    # For a release with its retries. After that, the lease expires by itself.
    release_ms: float = 5_000

    def release_policy(self, deadline_ms: float | None = None) -> Policy:
        limit_ms = self.release_ms if deadline_ms is None else deadline_ms
        return Policy(deadline_ms=limit_ms, attempt_ms=limit_ms / 2, urgent=True)


@dataclass(frozen=True, repr=False)
class LeaseCalls:
    """The requests of one lease. One lock and several locks have the same ones."""

    label: str
    lease_id: str
    # True if the lease ends with a session and has no end of its own.
    session_bound: bool
    # For one lock, a repeated request sends the rest of the wait. For several, the same as at first.
    sends_whole_wait: bool
    # Gets waitMs, pollMs, place.
    acquire: Callable[[int, int | None, int | Literal["new"] | None], Request]
    renew: Callable[[int | None], Request]
    release: Callable[[], Request]
    # Gets waitMs, connectionId, place. None if it can't be parked.
    park: Callable[[int, str, int | None], Request] | None = None


@dataclass(frozen=True)
class Asked:
    """How long to wait, and for what the caller wants to be told."""

    wait_ms: float
    cancel: Signal
    deadline_ms: float | None = None
    # How long an unavailable service is retried. A caller that fails open gives less.
    unavailable_ms: float | None = None
    on_waiting: Callable[[Waiting], None] | None = None


@dataclass(frozen=True)
class Taken:
    """A grant that is surely still valid."""

    calls: LeaseCalls
    body: Any
    # A time before the request that granted or confirmed it was sent.
    since: Mark
    remaining_ms: float


class Waits(Protocol):
    """What waiting needs of a client."""

    clock: Clock
    caller: Caller
    sockets: Sockets
    patience: Patience

    def spawn_counted(self, flow: Flow[Any]) -> Flow[Signal]: ...


@dataclass(frozen=True)
class _Bounds:
    wait_ms: float
    # No retry begins later.
    retry_ms: float
    deadline_ms: float


def _bounds_of(patience: Patience, asked: Asked) -> _Bounds:
    if asked.deadline_ms is None:
        retry_ms = asked.wait_ms + patience.try_ms if asked.unavailable_ms is None else asked.unavailable_ms
        return _Bounds(asked.wait_ms, retry_ms, asked.wait_ms + 2 * patience.try_ms)
    deadline_ms = asked.deadline_ms
    room_ms = max(0.0, deadline_ms - min(ANSWER_MS, deadline_ms / 4))
    retry_ms = deadline_ms if asked.unavailable_ms is None else min(deadline_ms, asked.unavailable_ms)
    return _Bounds(min(asked.wait_ms, room_ms), retry_ms, deadline_ms)


def take(client: Waits, new_calls: Callable[[str], LeaseCalls], asked: Asked) -> Flow[Taken]:
    """Takes a lock. Whatever goes wrong, the place in the queue is given up."""
    clock = client.clock
    began = clock.mark()
    bounds = _bounds_of(client.patience, asked)
    for leases in range(1, LEASES_MAX + 1):
        calls = new_calls(clock.new_id())
        try:
            answer = yield from _wait(client, calls, began, bounds, asked)
            return (yield from _confirm(client, calls, answer, bounds.deadline_ms - clock.elapsed_ms(began)))
        except LeaseLostError as error:
            gone = error.reason in ("expired", "not_owner")
            if not gone or leases == LEASES_MAX or clock.elapsed_ms(began) >= bounds.retry_ms:
                raise
        except HoldfastError as error:
            # If the service itself refused, nothing can be held.
            if error.status is None or isinstance(error, UnavailableError):
                yield from abandon(client, calls)
            raise
        except GeneratorExit:
            # The driver is gone. The place ends by itself.
            raise
        except BaseException:
            # Interrupted, or its task was cancelled: the loop may end soon, so the release gets a moment first.
            given_back = yield from abandon(client, calls)
            yield Wait(ABANDON_MS_MAX, (given_back,))
            raise
    raise AssertionError("unreachable")


def await_turn(client: Waits, calls: LeaseCalls, asked: Asked) -> Flow[Signal]:
    """Waits until a lease is granted, and releases it at once: the grant shows that all earlier holders are done."""
    try:
        yield from _wait(client, calls, client.clock.mark(), _bounds_of(client.patience, asked), asked)
    except LeaseLostError as error:
        if error.reason != "expired":
            raise
        over = Signal()
        over.fire()
        return over
    except GeneratorExit:
        raise
    except BaseException as error:
        if not isinstance(error, HoldfastError) or error.status is None or isinstance(error, UnavailableError):
            yield from abandon(client, calls)
        raise
    return (yield from abandon(client, calls))


def abandon(client: Waits, calls: LeaseCalls) -> Flow[Signal]:
    """Releases the lease, or gives up the place. If the request is lost, both end by themselves."""
    return (yield from client.spawn_counted(_give_back(client, calls)))


def _give_back(client: Waits, calls: LeaseCalls) -> Flow[None]:
    try:
        yield from client.caller.call(calls.release(), client.patience.release_policy())
    except HoldfastError:
        return


def _wait(client: Waits, calls: LeaseCalls, began: Mark, bounds: _Bounds, asked: Asked) -> Flow[Success]:
    """Asks until the lock is granted or refused. After a 202, the caller is still in the queue."""
    clock, sockets = client.clock, client.sockets
    queue = _Place(clock, calls, bounds.wait_ms, began, asked.on_waiting)
    joined = False
    try:
        while True:
            passed_ms = clock.elapsed_ms(began)
            asked_ms = queue.asked_ms()
            may_park = calls.park is not None and sockets.is_possible and queue.left_ms() > PARK_AFTER_MS
            # Only the first poll is short. Without it, a lock that is soon free would cost a socket.
            short_ms = UNPARKED_POLL_MS if queue.is_queued else PARK_AFTER_MS
            poll_ms = short_ms if may_park else None
            policy = Policy(
                deadline_ms=max(1.0, bounds.deadline_ms - passed_ms),
                retry_ms=bounds.retry_ms - passed_ms,
                # A lost request must not cost more time than a poll takes: meanwhile a lease may end unseen.
                attempt_ms=client.patience.request_ms + min(asked_ms, POLL_MS_MAX if poll_ms is None else poll_ms),
                # After the first request the service may know the lease, even if no answer came.
                again=calls.acquire(asked_ms, poll_ms, queue.known()),
                cancel=asked.cancel,
                # If the wait ended here, its place would stay in the queue.
                goes_on=queue.is_queued,
            )
            answer = yield from client.caller.call(calls.acquire(asked_ms, poll_ms, queue.place), policy)
            if answer.status != 202:
                return answer
            waiting = queue.note(answer.body)
            # The service ends the wait by its own clock. This check is for the case that it does not.
            if clock.elapsed_ms(began) >= bounds.deadline_ms:
                raise WaitTimeoutError(f"{calls.label} was not granted within {bounds.wait_ms:.0f} ms.")
            if may_park:
                if not joined:
                    sockets.join()
                    joined = True
                granted = yield from _wait_parked(client, calls, queue, asked.cancel)
                if granted is not None:
                    return granted
            # The service says when to come back. Until then the place is kept.
            took_ms = clock.elapsed_ms(answer.sent_at)
            pause_ms = max(min(waiting.retry_after_ms, queue.left_ms()), POLL_MS_MIN - took_ms)
            if pause_ms > 0:
                yield from pause(pause_ms, asked.cancel)
    finally:
        if joined:
            sockets.leave()


class _Place:
    """The place in the queue, and what is left of the wait."""

    def __init__(
        self,
        clock: Clock,
        calls: LeaseCalls,
        wait_ms: float,
        began: Mark,
        on_waiting: Callable[[Waiting], None] | None,
    ) -> None:
        self._clock = clock
        self._wait_ms = wait_ms
        self._began = began
        self._on_waiting = on_waiting
        self._whole_ms = self._rounded(self.left_ms()) if calls.sends_whole_wait else None
        self.place: int | Literal["new"] | None = "new"
        self.is_queued = False

    def known(self) -> int | None:
        return None if self.place == "new" else self.place

    def left_ms(self) -> float:
        return self._wait_ms - self._clock.elapsed_ms(self._began)

    def asked_ms(self) -> int:
        return self._rounded(self.left_ms()) if self._whole_ms is None else self._whole_ms

    def _rounded(self, ms: float) -> int:
        return 0 if self._wait_ms == 0 else max(1, round(ms))

    def note(self, body: Any) -> Waiting:
        # The answer about several locks has no `lock`.
        waiting = read(Waiting.read, {"lock": "", **body})
        self.place = waiting.place
        self.is_queued = True
        if self._on_waiting is not None:
            self._on_waiting(waiting)
        return waiting


def _wait_parked(client: Waits, calls: LeaseCalls, queue: _Place, cancel: Signal) -> Flow[Success | None]:
    """Waits in the same place without an open request: the service sends the grant to the WebSocket.

    If the connection breaks, it opens another one and parks the same lease again. None if parking is not possible now,
    or if the wait is over. Then the next poll tells which.
    """
    clock, sockets = client.clock, client.sockets
    once_ms = client.patience.request_ms
    while queue.left_ms() > 0:
        socket: ParkingSocket | None = yield from sockets.open(SILENT_MS_MAX, cancel)
        has_fired(cancel)
        if socket is None or calls.park is None:
            return None
        # It listens before it sends the request, because the grant may arrive before the answer.
        heard = socket.expect(calls.lease_id)
        try:
            request = calls.park(queue.asked_ms(), socket.connection_id, queue.known())
            answer = yield from client.caller.call(request, Policy(once_ms, once_ms, cancel=cancel))
            sockets.served()
            if answer.status != 202:
                return answer
            queue.note(answer.body)
            # Any message may be lost, so it does not wait for ever.
            look_ms = LOOK_MS_MAX * (0.8 + 0.2 * clock.random())
            yield Wait(min(look_ms, max(0.0, queue.left_ms())), (heard.granted, heard.ended, socket.closed, cancel))
            has_fired(cancel)
            if heard.granted.fired:
                # Nobody knows how long the message took. A renewal gives a whole lease from a known time.
                return (yield from client.caller.call(calls.renew(None), Policy(once_ms, once_ms, urgent=True)))
            if heard.ended.fired:
                return None
        except (UnavailableError, ThrottledError):
            # The next poll retries for as long as the wait allows.
            return None
        except HoldfastError as error:
            # The poll before was allowed, so the connection is the reason. It has ended, and the client may not know.
            if error.code != "forbidden":
                raise
            was_open = not socket.closed.fired
            sockets.discard(socket)
            if was_open:
                return None
        finally:
            socket.forget(calls.lease_id)
    return None


def _confirm(client: Waits, calls: LeaseCalls, answer: Success, left_ms: float) -> Flow[Taken]:
    """After a wait, the grant may have been made at any time since the request was sent.

    Counted from there, much of the lease may be over. So the lease is renewed before anybody relies on it.
    """
    clock, body = client.clock, answer.body
    known_ms = body.get("remainingMs")
    remaining_ms = float(known_ms if known_ms is not None else body.get("leaseMs") or 0)
    taken = Taken(calls, body, answer.sent_at, remaining_ms)
    if calls.session_bound or clock.elapsed_ms(answer.sent_at) < remaining_ms / 3:
        return taken
    # If the grant came at the very end of the wait, there is still time for one renewal.
    deadline_ms = min(remaining_ms, max(left_ms, client.patience.try_ms))
    policy = Policy(deadline_ms, client.patience.request_ms, urgent=True)
    try:
        renewed = yield from client.caller.call(calls.renew(None), policy)
    except LeaseLostError:
        raise
    except HoldfastError:
        if clock.elapsed_ms(answer.sent_at) >= remaining_ms / 2:
            raise
        return taken
    again_ms = renewed.body.get("remainingMs")
    return Taken(calls, body, renewed.sent_at, remaining_ms if again_ms is None else float(again_ms))
