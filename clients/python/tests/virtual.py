"""A driver in virtual time: flows, clocks and a scripted service, without threads and without waiting."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from holdfast.core import Core, Defaults, Hold
from holdfast.flow import (
    Answer,
    Clock,
    Connect,
    Effect,
    Flow,
    NoAnswerError,
    Request,
    Run,
    Send,
    Signal,
    Spawn,
    Wait,
)
from holdfast.waiting import Patience


class Sent(NamedTuple):
    """One request as the service saw it."""

    at_ms: float
    operation: str
    body: dict[str, Any]
    headers: dict[str, str]
    timeout_ms: float


class Reply(NamedTuple):
    """The service answers after this time. It does the work at once."""

    status: int
    body: Any
    after_ms: float = 10
    headers: dict[str, str] = {}  # noqa: RUF012


# No answer at all: the caller waits for the whole time that it allowed.
LOST = Reply(0, None, float("inf"))


class Task:
    """One flow that runs."""

    def __init__(self, world: World, flow: Flow[Any]) -> None:
        self._world = world
        self._flow = flow
        self._cancel: Callable[[], None] = lambda: None
        self.done = Signal()
        self.result: Any = None
        self.error: BaseException | None = None
        self.step(None, None)

    def interrupt(self, error: BaseException) -> None:
        """What Ctrl-C and the cancellation of a task do."""
        self._cancel()
        self.step(None, error)

    def step(self, value: Any, error: BaseException | None) -> None:
        try:
            effect = self._flow.send(value) if error is None else self._flow.throw(error)
        except StopIteration as stop:
            self.result = stop.value
            self.done.fire()
            return
        except BaseException as raised:
            self.error = raised
            self.done.fire()
            return
        self._cancel = self._world.perform(effect, self)


class World(Clock):
    def __init__(self) -> None:
        self._monotonic_ms = 5_000.0
        self._wall_ms = 1_700_000_000_000.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._ids = 0
        self.draws = 0.5
        self.sent: list[Sent] = []
        self.service: Callable[[Sent], Reply] = lambda _: LOST
        # Opens a WebSocket: gets what delivers a message, returns whether it opened.
        self.sockets: Callable[[Callable[[Any], None], Callable[[], None]], bool] = lambda *_: False
        self.socket_sent: list[str] = []

    # The clock

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def wall_ms(self) -> float:
        return self._wall_ms

    def random(self) -> float:
        return self.draws

    def new_id(self) -> str:
        self._ids += 1
        return f"secret-{self._ids:010d}"

    @property
    def now_ms(self) -> float:
        return self._monotonic_ms - 5_000

    def freeze(self, ms: float) -> None:
        """A frozen Lambda: no timer runs, the monotonic clock stands still, and the wall clock goes on."""
        self._wall_ms += ms

    def after(self, ms: float, run: Callable[[], None]) -> Callable[[], None]:
        self._count += 1
        entry = (self._monotonic_ms + max(0.0, ms), self._count, run)
        heapq.heappush(self._timers, entry)

        def cancel() -> None:
            if entry in self._timers:
                self._timers.remove(entry)
                heapq.heapify(self._timers)

        return cancel

    def advance(self, ms: float) -> None:
        end = self._monotonic_ms + ms
        while self._timers and self._timers[0][0] <= end:
            at, _, run = heapq.heappop(self._timers)
            self._move(at)
            run()
        self._move(end)

    def _move(self, to: float) -> None:
        self._wall_ms += to - self._monotonic_ms
        self._monotonic_ms = to

    # Flows

    def start(self, flow: Flow[Any]) -> Task:
        return Task(self, flow)

    def run(self, flow: Flow[Any]) -> Any:
        """Runs to the end, however long that takes in virtual time."""
        task = self.start(flow)
        while not task.done.fired:
            if not self._timers:
                raise AssertionError("The flow waits for something that never comes.")
            self.advance(max(0.0, self._timers[0][0] - self._monotonic_ms))
        if task.error is not None:
            raise task.error
        return task.result

    def perform(self, effect: Effect, task: Task) -> Callable[[], None]:
        if isinstance(effect, Send):
            return self._send(effect, task)
        if isinstance(effect, Wait):
            return self._wait(effect.ms, effect.signals, lambda: task.step(None, None))
        if isinstance(effect, Spawn):
            child = self.start(effect.flow)
            return self.after(0, lambda: task.step(child.done, None))
        if isinstance(effect, Connect):
            return self._connect(effect, task)
        return self._run(effect, task)

    def _run(self, effect: Run, task: Task) -> Callable[[], None]:
        try:
            value = effect.work()
        except Exception as raised:
            error = raised
            return self.after(0, lambda: task.step(None, error))
        if isinstance(value, Generator):
            # Work that takes time is a flow here.
            child = self.start(value)
            return child.done.listen(lambda: self.after(0, lambda: task.step(child.result, child.error)))
        return self.after(0, lambda: task.step(value, None))

    def _wait(self, ms: float | None, signals: tuple[Signal, ...], then: Callable[[], None]) -> Callable[[], None]:
        cancels: list[Callable[[], None]] = []

        def cancel() -> None:
            for one in cancels:
                one()

        def go_on() -> None:
            cancel()
            cancels.append(self.after(0, then))

        if ms is not None:
            cancels.append(self.after(ms, go_on))
        if any(one.fired for one in signals):
            go_on()
        else:
            cancels.extend(one.listen(go_on) for one in signals)
        return cancel

    def _send(self, effect: Send, task: Task) -> Callable[[], None]:
        sent = _seen(self.now_ms, effect.request, effect.timeout_ms)
        self.sent.append(sent)
        reply = self.service(sent)

        def arrive() -> None:
            if any(one.fired for one in effect.cancel) or reply.after_ms > effect.timeout_ms:
                task.step(None, NoAnswerError("no answer"))
            else:
                task.step(Answer(reply.status, reply.headers, reply.body), None)

        return self._wait(min(reply.after_ms, effect.timeout_ms), effect.cancel, arrive)

    def _connect(self, effect: Connect, task: Task) -> Callable[[], None]:
        world = self

        class Opened:
            def send(self, text: str) -> None:
                world.socket_sent.append(text)

            def close(self) -> None:
                effect.on_closed()

        if self.sockets(effect.on_message, effect.on_closed):
            return self.after(5, lambda: task.step(Opened(), None))
        return self.after(5, lambda: task.step(None, NoAnswerError("refused")))

    # The client under test

    def core(self, *, has_sockets: bool = False, defaults: Defaults | None = None) -> Core:
        return Core(
            "test",
            "http://service",
            clock=self,
            has_sockets=has_sockets,
            defaults=defaults,
            patience=Patience(),
        )

    def operations(self) -> list[str]:
        return [one.operation for one in self.sent]


def _seen(at_ms: float, request: Request, timeout_ms: float) -> Sent:
    from holdfast.contract import ROUTES

    method, route = ROUTES[request.operation]
    pattern = re.escape(route).replace(r"\{", "{").replace(r"\}", "}")
    path = request.path.split("?")[0]
    assert method == request.method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", pattern), path), path
    return Sent(at_ms, request.operation, json.loads(request.body or b"{}"), request.headers, timeout_ms)


class Service:
    """A lock service with one lock, as little as the tests need. Each test replaces what it is about."""

    def __init__(self, world: World, *, lease_ms: int = 30_000) -> None:
        self.world = world
        self.lease_ms = lease_ms
        self.records: dict[str, dict[str, Any]] = {}

    def __call__(self, sent: Sent) -> Reply:
        if sent.operation in ("acquireLock", "renewLock"):
            return granted(sent, lease_ms=sent.body.get("leaseMs", self.lease_ms))
        if sent.operation == "releaseLock":
            return Reply(200, {"released": True, "reason": "ok"})
        raise AssertionError(f"unexpected {sent.operation}")


def granted(sent: Sent, *, lease_ms: int = 30_000, fence: int = 7, after_ms: float = 10, **more: Any) -> Reply:
    body = {
        "status": "granted",
        "lock": "a",
        "leaseId": sent.body["leaseId"],
        "fence": fence,
        "limit": 1,
        "permits": 1,
        "leaseMs": lease_ms,
        "remainingMs": lease_ms,
        "expiresAt": None,
        "waitedMs": 0,
    }
    return Reply(200, {**body, **more}, after_ms)


def waiting(sent: Sent, *, after_ms: float = 1_000, **more: Any) -> Reply:
    body = {
        "status": "waiting",
        "lock": "a",
        "leaseId": sent.body["leaseId"],
        "position": 1,
        "queueDepth": 1,
        "holders": [],
        "etaMs": None,
        "waitRemainingMs": 0,
        "retryAfterMs": 0,
    }
    return Reply(202, {**body, **more}, after_ms)


def problem(code: str, status: int, after_ms: float = 10, **more: Any) -> Reply:
    return Reply(status, {"code": code, "detail": f"It is {code}.", "status": status, **more}, after_ms)


def acquired(world: World, core: Core, **options: Any) -> Hold:
    hold: Hold = world.run(core.acquire("a", options))  # type: ignore[arg-type]
    return hold
