"""What users hold: locks, sessions, leadership. The parts without I/O, for threads and for asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .caller import check_name, read, request_of
from .contract import LockFence, SessionView
from .core import Core, Hold, OpenedSession
from .flow import Flow
from .jobs import Candidate


class HeldBase:
    """One lock or several that are held. Its repr shows no secrets."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        # How long the caller waited, by the service's clock.
        self.waited_ms: int = hold.body.get("waitedMs", 0)
        # True if nothing is held: the service could not be reached, and on_unavailable is "fail-open".
        self.failed_open: bool = hold.failed_open

    def is_held(self) -> bool:
        """True if the lease is surely still held now, by both clocks."""
        return self._hold.tenure.is_alive()

    def remaining_ms(self) -> float:
        """How much time is surely left without another renewal. 0 if it is not held."""
        return self._hold.tenure.remaining_ms()

    def check(self) -> None:
        """Raises `LeaseLostError` if the lease is lost. Call it before each step that the lock protects."""
        self._hold.check()


class LockBase(HeldBase):
    """A lock that is held. It is renewed in the background until it is released."""

    def __init__(self, hold: Hold) -> None:
        super().__init__(hold)
        body = hold.body
        self.name: str = body["lock"]
        # Rises with every grant of this lock. Send it with every write: the resource refuses a lower one. 0 if it
        # failed open, which is lower than every real fence.
        self.fence: int = body["fence"]
        # How many permits there are. 1 is a mutex.
        self.limit: int = body.get("limit", 1)
        self.permits: int = body.get("permits", 1)

    def detach(self) -> dict[str, str]:
        """Stops renewing, but does not release. Another process goes on with `adopt`. Treat it like a password."""
        self.check()
        return {"lock": self.name, "leaseId": self._hold.detach()}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} fence={self.fence} held={self.is_held()}>"


class LocksBase(HeldBase):
    """Several locks held at once, under one lease."""

    def __init__(self, hold: Hold) -> None:
        super().__init__(hold)
        # The fence of each lock, in the order of the call.
        self.fences: dict[str, int] = {one["lock"]: one["fence"] for one in hold.body["grants"]}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fences} held={self.is_held()}>"


class SessionBase:
    """One keepalive for all the locks that are taken under it. Ending or losing it frees them all at once."""

    def __init__(self, core: Core, opened: OpenedSession) -> None:
        self._core = core
        self._opened = opened

    def is_alive(self) -> bool:
        """True if the session surely still lives now, by both clocks."""
        return self._opened.keeper.is_alive()

    def remaining_ms(self) -> float:
        return self._opened.keeper.remaining_ms()

    def _locks(self) -> Flow[list[LockFence]]:
        request = request_of("getSession", self._core.at(id=self._opened.id))
        return read(SessionView.read, (yield from self._core.ask(request))).locks

    def __repr__(self) -> str:
        return f"<{type(self).__name__} alive={self.is_alive()}>"


class RecordBase:
    def __init__(self, core: Core, key: str) -> None:
        self._core = core
        self.key = check_name("record", key)

    @staticmethod
    def _tag(version: int | str | None) -> Any:
        return version if version is None or version == "*" else f'"{version}"'


class TermBase:
    """The time for which one candidate leads."""

    def __init__(self, epoch: int, is_leader: Callable[[], bool]) -> None:
        # The fence of the lock. It rises with every term. Send it with every write that only the leader may make.
        self.epoch = epoch
        self.is_leader = is_leader


class ElectionBase:
    """A candidate for leadership, until it is closed."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self.name = candidate.name

    @property
    def is_leader(self) -> bool:
        """True if this candidate surely leads now."""
        return self._candidate.is_leader

    @property
    def epoch(self) -> int | None:
        """The epoch of the current term. None while another candidate leads."""
        hold = self._candidate.hold
        epoch: Any = hold.body["fence"] if hold is not None and self.is_leader else None
        return None if epoch is None else int(epoch)
