"""A job that is done once, and leadership. Both are built from locks and records.

    look at the record -- done ----------------------------------------------------> its result       1 request
         | not done
    try the lock -- held -- wait as a reader, all at once -- look again -- done ----> its result
         | granted                                            | not done: the runner failed or died
         |<--------------------------- wait for the lock -----'
    mark the record as running, with the fence      From here on no earlier runner can complete: its fence is too low.
    work
    write the result, with the fence and an end
    release                                                                                             5 requests

Only the service's clock counts. A run began at the time of its mark, and the record's answer says what time it is now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from .caller import check_name, log
from .contract import EXPIRES_IN_MS_MAX, EXPIRES_IN_MS_MIN, WAIT_MS_MAX, AcquireLockBody, RecordView
from .core import Core, Hold
from .errors import (
    HoldfastError,
    InvalidRequestError,
    LockHeldError,
    OnceFailedError,
    VersionMismatchError,
    WaitTimeoutError,
    invalid_field,
)
from .flow import Flow, Run, Signal, Spawn, Wait
from .options import WAIT_MS_DEFAULT, ElectOptions, LockOptions, OnceOptions, check_options
from .waiting import Asked, await_turn

# Lock and record have this prefix, so they differ from the user's own.
ONCE_PREFIX = "once:"
# Senders of webhooks give up within a day.
KEEP_MS_DEFAULT = 86_400_000
# A record takes 256 KiB. This leaves space for the note around the result.
RESULT_BYTES_MAX = 255 * 1024
# An error is kept for people, and they read only its beginning.
ERROR_LENGTH_MAX = 1_000
# The record outlives its window by more than clocks differ. So if it is gone, the window is over by every clock.
OUTLIVE_MS = 60_000
# A reader that dies must not delay the next run for long.
READER_LEASE_MS = 10_000
# While a holder has the lock, only a runner that lost it can change the record. That happens once at most.
MARKS_MAX = 3
# A candidate whose work failed pauses, because another candidate may succeed.
PAUSE_BASE_MS = 500
PAUSE_MS_MAX = 15_000
# Half of the time that container platforms give after SIGTERM.
HAND_OVER_MS_DEFAULT = 5_000


class Once(NamedTuple):
    """The result of a job. The value has been JSON, so the runner and all others get the same."""

    # True if this call did the work.
    ran: bool
    # False if another caller was still doing the work when the wait was over.
    done: bool
    value: Any


_STILL_RUNNING = Once(False, False, None)


class _Seen(NamedTuple):
    record: RecordView | None
    # By the service's clock. Known if the record has an end. The record of every completed run has one.
    now_ms: float | None


def run_once(core: Core, key: str, options: OnceOptions, work: Callable[[Hold], Any]) -> Flow[Once]:
    check_options(OnceOptions, options)
    job = _Job(core, key, options)
    began = core.clock.mark()
    default_ms = WAIT_MS_DEFAULT if core.defaults.wait_ms is None else core.defaults.wait_ms
    wait_ms = options.get("wait_ms", default_ms)

    def left_ms() -> int:
        return max(0, round(wait_ms - core.clock.elapsed_ms(began)))

    seen = yield from job.look()
    known = job.result_of(seen)
    if known is not None:
        return known
    hold = yield from job.take(0)
    if hold is None and left_ms() > 0:
        again = yield from job.wait_as_reader(left_ms())
        if again is None:
            return _STILL_RUNNING
        seen = again
        known = job.result_of(seen)
        if known is not None:
            return known
        hold = yield from job.take(left_ms())
    if hold is None:
        return _STILL_RUNNING
    return (yield from job.run_under(hold, seen, work))


class _Job:
    def __init__(self, core: Core, key: str, options: OnceOptions) -> None:
        self._core = core
        self._name = check_name("job", ONCE_PREFIX + check_name("job", key))
        self._options = _checked_spans(options)

    def look(self) -> Flow[_Seen]:
        record = yield from self._core.get_record(self._name)
        if record is None:
            return _Seen(None, None)
        if not isinstance(record.value, dict) or "once" not in record.value:
            raise HoldfastError(f"The record {self._name} was written by another program: it is not the note of a run.")
        if record.expires_at is None:
            return _Seen(record, None)
        return _Seen(record, _epoch_ms(record.expires_at) - (record.remaining_ms or 0))

    def result_of(self, seen: _Seen) -> Once | None:
        """None if the work is still to be done."""
        note = None if seen.record is None else seen.record.value
        if note is None or note["once"] == "running" or not self._is_current(note["startedAt"], seen.now_ms):
            return None
        if note["once"] == "done":
            return Once(False, True, note.get("value"))
        failure = note["error"]
        raise OnceFailedError(f"{self._name} has failed and is not done again: {failure['name']}: {failure['message']}")

    def take(self, wait_ms: int) -> Flow[Hold | None]:
        """None if somebody else held the lock all the time. It never fails open: the work could run twice."""
        wanted: LockOptions = {"wait_ms": wait_ms, "on_unavailable": "fail-closed"}
        for name in ("lease_ms", "owner", "hold_ms_max", "cancel"):
            if name in self._options:
                wanted[name] = self._options[name]
        try:
            return (yield from self._core.acquire(self._name, wanted))
        except (LockHeldError, WaitTimeoutError):
            return None

    def wait_as_reader(self, wait_ms: int) -> Flow[_Seen | None]:
        """The runner's release grants to all readers at once, so many callers get the result in one step."""
        core = self._core
        owner = self._options.get("owner", core.defaults.owner)
        fields: AcquireLockBody = {"mode": "shared", "leaseMs": READER_LEASE_MS, "owner": owner}
        calls = core.lock_calls(self._name, fields, None)(core.clock.new_id())
        try:
            with core.cancelled_by(self._options.get("cancel")) as cancel:
                given_back = yield from await_turn(core, calls, Asked(wait_ms, cancel))
        except (LockHeldError, WaitTimeoutError):
            return None
        seen = yield from self.look()
        # A caller that takes the lock next must first give up its own read lock.
        if self.result_of(seen) is None:
            yield Wait(None, (given_back,))
        return seen

    def run_under(self, hold: Hold, seen: _Seen, work: Callable[[Hold], Any]) -> Flow[Once]:
        try:
            marked = yield from self._mark(hold, seen)
            result = marked if isinstance(marked, Once) else (yield from self._complete(hold, *marked, work))
        except GeneratorExit:
            raise
        except BaseException:
            yield from hold.release_after_failure()
            raise
        # If the release fails, the lease ends by itself, and the work is still done.
        yield from hold.release_after_failure()
        return result

    def _mark(self, hold: Hold, seen: _Seen) -> Flow[Once | tuple[int, float]]:
        """Writes that a run begins, if the record has not changed since it was read.

        The write raises the record's floor, so a runner that lost the lock is refused from now on.
        """
        for marks in range(1, MARKS_MAX + 1):
            if_match = None if seen.record is None else f'"{seen.record.version}"'
            try:
                written = yield from self._core.put_record(
                    self._name, {"once": "running"}, if_match, {"fence": hold.body["fence"]}
                )
                # The clocks of two hosts may differ. The later time counts.
                return written.version, max(_epoch_ms(written.updated_at), seen.now_ms or 0)
            except VersionMismatchError:
                if marks == MARKS_MAX:
                    raise
            seen = yield from self.look()
            result = self.result_of(seen)
            if result is not None:
                return result
        raise AssertionError("unreachable")

    def _complete(self, hold: Hold, version: int, started_at: float, work: Callable[[Hold], Any]) -> Flow[Once]:
        try:
            value = yield Run(lambda: work(hold))
        except Exception as error:
            if self._options.get("on_failure") == "close":
                try:
                    yield from self._note(hold, version, started_at, "failed", error=_described(error))
                except HoldfastError as unwritten:
                    # The caller must see the error of the work.
                    log.warning("The failure of %s could not be kept: %s", self._name, unwritten)
            raise
        try:
            text = json.dumps(value)
            if len(text.encode()) > RESULT_BYTES_MAX:
                raise HoldfastError(f"The result has more than {RESULT_BYTES_MAX} bytes as JSON.", code="too-large")
        except (TypeError, ValueError, HoldfastError) as error:
            # The work is done, and doing it again would not help.
            yield from self._note(hold, version, started_at, "failed", error=_described(error))
            raise
        kept = json.loads(text)
        yield from self._note(hold, version, started_at, "done", value=kept)
        return Once(True, True, kept)

    def _note(self, hold: Hold, version: int, started_at: float, state: str, **more: Any) -> Flow[None]:
        note = {"once": state, "startedAt": started_at, **more}
        kept_ms = self._kept_ms(started_at)
        fence: int = hold.body["fence"]
        yield from self._core.put_record(self._name, note, f'"{version}"', {"fence": fence, "expires_in_ms": kept_ms})

    def _kept_ms(self, started_at: float) -> int:
        every_ms = self._options.get("every_ms")
        if every_ms is None:
            return self._options.get("keep_ms", KEEP_MS_DEFAULT)
        lasts_ms = self._window_end(started_at, every_ms) - started_at + OUTLIVE_MS
        return int(min(EXPIRES_IN_MS_MAX, max(EXPIRES_IN_MS_MIN, lasts_ms)))

    def _is_current(self, started_at: float, now_ms: float | None) -> bool:
        every_ms = self._options.get("every_ms")
        return every_ms is None or now_ms is None or self._window_end(started_at, every_ms) > now_ms

    def _window_end(self, at: float, every_ms: int) -> float:
        offset_ms = self._options.get("offset_ms", 0)
        return ((at - offset_ms) // every_ms + 1) * every_ms + offset_ms


def _epoch_ms(instant: str) -> float:
    return datetime.fromisoformat(instant.replace("Z", "+00:00")).astimezone(timezone.utc).timestamp() * 1_000


def _described(error: BaseException) -> dict[str, str]:
    return {"name": type(error).__name__[:ERROR_LENGTH_MAX], "message": str(error)[:ERROR_LENGTH_MAX]}


def _checked_spans(options: OnceOptions) -> OnceOptions:
    every_ms = options.get("every_ms")
    given: Mapping[str, Any] = options
    limits = {
        "every_ms": (EXPIRES_IN_MS_MIN, EXPIRES_IN_MS_MAX),
        "keep_ms": (EXPIRES_IN_MS_MIN, EXPIRES_IN_MS_MAX),
        "offset_ms": (0, (every_ms or 1) - 1),
    }
    if every_ms is not None and "keep_ms" in options:
        raise invalid_field("keep_ms", "is not allowed with every_ms: the window keeps it")
    if every_ms is None and "offset_ms" in options:
        raise invalid_field("offset_ms", "needs every_ms")
    for name, (least, most) in limits.items():
        value = given.get(name)
        if value is not None and not (isinstance(value, int) and least <= value <= most):
            raise invalid_field(name, f"must be a whole number from {least} to {most}, got {value!r}")
    return options


class Candidate:
    """A candidate for leadership, until it is closed.

    The holder of the lock leads, its fence is the epoch, and the other candidates wait in the lock's queue.
    """

    def __init__(
        self, core: Core, name: str, options: ElectOptions, work: Callable[[int, Signal, Callable[[], bool]], Any]
    ) -> None:
        check_options(ElectOptions, options)
        self.name = check_name("lock", name)
        self._core = core
        self._options = options
        # Gets the epoch, the signal that ends the term, and whether this candidate surely leads now.
        self._work = work
        self._closing = Signal()
        self._done = Signal()
        self.hold: Hold | None = None
        core.open[self] = self.close

    @property
    def is_leader(self) -> bool:
        return self.hold is not None and self.hold.tenure.is_alive()

    def close(self) -> Flow[None]:
        """Gives leadership up: first the term's signal fires, then the work stops, then the next candidate leads."""
        self._core.open.pop(self, None)
        self._closing.fire()
        yield Wait(None, (self._done,))

    def run(self) -> Flow[None]:
        clock = self._core.clock
        failures = 0
        wanted: LockOptions = {"wait_ms": WAIT_MS_MAX, "on_unavailable": "fail-closed"}
        for name in ("lease_ms", "owner", "metadata"):
            if name in self._options:
                wanted[name] = self._options[name]
        try:
            with self._core.cancelled_by(self._closing) as stop:
                wanted["cancel"] = stop
                while not stop.fired:
                    try:
                        yield from self._lead((yield from self._core.acquire(self.name, wanted)), stop)
                        failures = 0
                    except Exception as error:
                        if stop.fired:
                            return
                        if not isinstance(error, WaitTimeoutError):
                            log.warning("The candidate for %s failed: %s", self.name, error)
                        # If the options are wrong, another try does not help.
                        if isinstance(error, InvalidRequestError):
                            return
                        yield Wait(PAUSE_BASE_MS + clock.backoff_ms(failures, PAUSE_BASE_MS, PAUSE_MS_MAX), (stop,))
                        failures += 1
        finally:
            self._core.open.pop(self, None)
            self._done.fire()

    def _lead(self, hold: Hold, stop: Signal) -> Flow[None]:
        """One term, until its end. Raises the error of the work."""
        self.hold = hold
        # When the client closes, it closes this election, which releases the lock after its work has stopped.
        self._core.open.pop(hold, None)
        ended = Signal()
        listened = [one.listen(ended.fire) for one in (stop, hold.tenure.lost)]
        failure: list[Exception] = []

        def term() -> Flow[None]:
            try:
                yield Run(lambda: self._work(hold.body["fence"], ended, lambda: not ended.fired and self.is_leader))
            except Exception as error:
                failure.append(error)
                ended.fire()

        work: Signal = yield Spawn(term())
        yield Wait(None, (ended,))
        # While this work runs, the next candidate must not begin, and this one must not begin a second term.
        if hold.tenure.lost.fired:
            yield Wait(None, (work, stop))
        else:
            hand_over_ms = self._options.get("hand_over_ms", HAND_OVER_MS_DEFAULT)
            yield Wait(hand_over_ms, (work, hold.tenure.lost))
        for forget in listened:
            forget()
        self.hold = None
        yield from hold.release_after_failure()
        if failure and not stop.fired:
            raise failure[0]
