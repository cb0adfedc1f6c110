"""Renews a lease or a session, and knows when it may have ended.

That is always before the service can grant the lock to another caller: the time counts from before the request was
sent, on the clock that ran further.

    sent   granted                     renew            lost          ended at the earliest
     |-------|---------------------------|----------------|-margin-------|
     `---------------------- remaining_ms by both clocks ----------------'
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from .caller import Caller, Policy, log
from .contract import LEASE_MS_MIN
from .errors import HoldfastError, LeaseLostError, SessionLostError
from .flow import Clock, Flow, Mark, Request, Signal, Wait

# A renewal after each third of the lease: two may fail before the lease is in danger.
RENEWALS_PER_LEASE = 3
# A random part, so that leases that began together are not renewed together.
JITTER_PART = 0.1
# A frozen process runs no timers. The clocks are read this often, so after a freeze it knows within a second.
LOOK_MS_MAX = 1_000
# The lock counts as lost when a tenth of the lease is left, so that there is time to stop. More than a second would
# waste a long lease.
MARGIN_PART = 0.1
MARGIN_MS_MAX = 1_000
# Below this, not even a nearby service can answer.
ATTEMPT_MS_MIN = 250


class _Lease(NamedTuple):
    """What the last answer promised. Replaced as a whole, because several threads read it."""

    since: Mark
    lasts_ms: float
    lease_ms: float
    # When the next renewal is due, counted from `since`.
    renew_in_ms: float
    # Rises if a renewal asked for less time. Answers to requests from before then promise too much.
    generation: int


class Keeper:
    def __init__(
        self,
        clock: Clock,
        caller: Caller,
        *,
        name: str,
        since: Mark,
        remaining_ms: float,
        lease_ms: float,
        renewal: Callable[[int | None], Request],
        unconfirmed: Callable[[], HoldfastError],
        hold_ms_max: float | None = None,
    ) -> None:
        self._clock = clock
        self._caller = caller
        self._name = name
        self._renewal = renewal
        self._unconfirmed = unconfirmed
        self._hold_ms_max = hold_ms_max
        self._began = since
        self._lease = _Lease(since, remaining_ms, lease_ms, self._pace_ms(min(lease_ms, remaining_ms)), 0)
        self._mutex = threading.Lock()
        self._failures = 0
        self._pid = os.getpid()
        # Fires if it is lost, never if it is ended on purpose.
        self.lost = Signal()
        self._ended = Signal()

    def is_alive(self) -> bool:
        """Reads the clocks, so after a freeze the caller gets the right answer before any timer has run."""
        # Only the process that took the lock renews it. In a forked child it is not held.
        if self._ended.fired or self.lost.fired or os.getpid() != self._pid:
            return False
        if self._left_ms() > 0:
            return True
        self.lose(self._unconfirmed())
        return False

    def remaining_ms(self) -> float:
        """The time that is surely left, without the margin."""
        return self._left_ms() if self.is_alive() else 0.0

    def lose(self, error: HoldfastError) -> None:
        if not self._ended.fired and self.lost.fire(error):
            log.warning("%s is lost: %s", self._name, error)

    def end(self) -> None:
        """Ends it on purpose. Nothing is renewed any more."""
        self._ended.fire()

    def keep(self) -> Flow[None]:
        """Renews in the background until it is ended or lost."""
        while self.is_alive():
            due_ms = self._until_renewal_ms()
            if due_ms > 0:
                # At least a millisecond: a clock may not see less, and this would be a busy loop.
                yield Wait(max(1.0, min(self._left_ms(), due_ms, LOOK_MS_MAX)), (self._ended, self.lost))
                continue
            try:
                yield from self.renew(self._shortened_ms())
            except HoldfastError as error:
                log.info("%s could not be renewed: %s", self._name, error)
                # The first retry comes soon, later ones with longer pauses. Several fit into the rest of the lease.
                longest_ms = max(200.0, self._lease.lease_ms / 10)
                again_in_ms = self._clock.backoff_ms(self._failures, 100, longest_ms)
                self._failures += 1
                with self._mutex:
                    elapsed_ms = self._clock.elapsed_ms(self._lease.since)
                    self._lease = self._lease._replace(renew_in_ms=elapsed_ms + again_in_ms)

    def renew(self, lease_ms: int | None = None) -> Flow[None]:
        """Renews now. Raises the service's refusal, or the reason why no answer came."""
        since = self._clock.mark()
        if lease_ms is not None:
            self._rely_on_at_most(lease_ms, since)
        lease = self._lease
        # If one try hangs, there must be time for another. No try goes on after the lease: then it is lost anyway.
        attempt_ms = max(ATTEMPT_MS_MIN, lease.lease_ms / RENEWALS_PER_LEASE)
        attempt_ms = max(1.0, min(attempt_ms, self._left_ms()))
        # Only one try, because `keep` decides when the next is due.
        policy = Policy(deadline_ms=attempt_ms, attempt_ms=attempt_ms, retry_ms=0, cancel=None, urgent=True)
        try:
            answer = yield from self._caller.call(self._renewal(lease_ms), policy)
        except (LeaseLostError, SessionLostError) as error:
            self.lose(error)
            raise
        remaining_ms = answer.body.get("remainingMs")
        lasts_ms = float(remaining_ms if remaining_ms is not None else (lease_ms or lease.lease_ms))
        long_ms = float(lease_ms or lease.lease_ms)
        with self._mutex:
            if self._ended.fired or self.lost.fired or self._lease.generation != lease.generation:
                return
            self._failures = 0
            self._lease = _Lease(since, lasts_ms, long_ms, self._pace_ms(min(long_ms, lasts_ms)), lease.generation)
        log.debug("%s is renewed for %d ms", self._name, lasts_ms)

    def _rely_on_at_most(self, lease_ms: int, since: Mark) -> None:
        """A renewal may ask for less time, and its answer may be lost. From the sending on, only that time is sure."""
        with self._mutex:
            lease = self._lease
            if lease_ms < lease.lasts_ms - self._clock.elapsed_ms(lease.since):
                self._lease = lease._replace(
                    since=since, lasts_ms=lease_ms, renew_in_ms=self._pace_ms(lease_ms), generation=lease.generation + 1
                )

    def _left_ms(self) -> float:
        lease = self._lease
        margin_ms = min(MARGIN_MS_MAX, lease.lease_ms * MARGIN_PART)
        return lease.lasts_ms - margin_ms - self._clock.elapsed_ms(lease.since)

    def _pace_ms(self, span_ms: float) -> float:
        return span_ms / RENEWALS_PER_LEASE * (1 - JITTER_PART + 2 * JITTER_PART * self._clock.random())

    def _hold_left_ms(self) -> float:
        if self._hold_ms_max is None:
            return float("inf")
        return self._hold_ms_max - self._clock.elapsed_ms(self._began)

    def _shortened_ms(self) -> int | None:
        """The lease for the next renewal, if a whole one would end after `hold_ms_max`."""
        left_ms = self._hold_left_ms()
        if left_ms >= self._lease.lease_ms:
            return None
        return max(LEASE_MS_MIN, int(left_ms) + 1)

    def _until_renewal_ms(self) -> float:
        if self._hold_left_ms() <= 0:
            return float("inf")
        return self._lease.renew_in_ms - self._clock.elapsed_ms(self._lease.since)
