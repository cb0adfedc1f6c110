"""What the rules of the client and its drivers share.

A rule is a generator: it yields an effect (send this request, wait that long), and gets the effect's result back. It
does no I/O itself. A driver performs the effects: with threads, with asyncio, or in virtual time in the tests.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar


class Mark(NamedTuple):
    """One instant on both clocks. The monotonic clock stops in a frozen Lambda, and the wall clock can be set."""

    monotonic_ms: float
    wall_ms: float


class Clock:
    """Clocks and random numbers. Tests bring their own."""

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1_000

    def wall_ms(self) -> float:
        return time.time() * 1_000

    def random(self) -> float:
        return random.random()

    def new_id(self) -> str:
        """A new secret of 144 random bits."""
        return secrets.token_urlsafe(18)

    def mark(self) -> Mark:
        return Mark(self.monotonic_ms(), self.wall_ms())

    def elapsed_ms(self, since: Mark) -> float:
        """The longer time of both clocks: a time that is too long is safe, one that is too short is not."""
        return max(0.0, self.monotonic_ms() - since.monotonic_ms, self.wall_ms() - since.wall_ms)

    def backoff_ms(self, attempt: int, base_ms: float, max_ms: float) -> float:
        """All of it is random, so that callers that collided do not meet again."""
        return self.random() * min(max_ms, base_ms * 2.0 ** min(attempt, 30))


class Signal:
    """Fires once, from any thread. A caller may fire one that it passed as `cancel`."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._listeners: dict[object, Callable[[], object]] = {}
        self._fired = False
        self.reason: BaseException | None = None

    @property
    def fired(self) -> bool:
        return self._fired

    def fire(self, reason: BaseException | None = None) -> bool:
        """True if this call fired it."""
        with self._mutex:
            if self._fired:
                return False
            self.reason = reason
            self._fired = True
            listeners, self._listeners = list(self._listeners.values()), {}
        for listener in listeners:
            listener()
        return True

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Calls the listener when the signal fires, or at once. Returns what removes the listener."""
        key = object()
        with self._mutex:
            if not self._fired:
                self._listeners[key] = listener
                return lambda: self._forget(key)
        listener()
        return lambda: None

    def _forget(self, key: object) -> None:
        with self._mutex:
            self._listeners.pop(key, None)


@dataclass(frozen=True)
class Request:
    """One request. Its path and its body may contain secrets, so they are not printed."""

    operation: str
    method: str
    path: str = field(repr=False)
    headers: dict[str, str] = field(repr=False, default_factory=dict)
    body: bytes | None = field(repr=False, default=None)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str] = field(repr=False)
    body: Any = field(repr=False)


class NoAnswerError(Exception):
    """The request got no answer. It may have had its effect."""


class Socket(Protocol):
    """An open WebSocket."""

    def send(self, text: str) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Send:
    """Sends the request. Raises `NoAnswerError` if no answer came in time, or if the signal fired."""

    request: Request
    timeout_ms: float
    cancel: tuple[Signal, ...] = ()


@dataclass(frozen=True)
class Wait:
    """Waits until one of the signals fires, and no longer than the given time."""

    ms: float | None
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True)
class Run:
    """Calls a function of the user, which may be a coroutine function with asyncio."""

    work: Callable[[], Any]


@dataclass(frozen=True)
class Spawn:
    """Begins another flow beside this one. The process waits for its end only if `keeps_alive`."""

    flow: Flow[Any]
    keeps_alive: bool = False


@dataclass(frozen=True)
class Connect:
    """Opens a WebSocket. Raises `NoAnswerError` if it can't be opened."""

    url: str = field(repr=False)
    timeout_ms: float
    on_message: Callable[[Any], None]
    on_closed: Callable[[], None]


Effect = Send | Wait | Run | Spawn | Connect
T = TypeVar("T")
Flow = Generator[Effect, Any, T]
