"""The options of the calls. They are keyword arguments, and a misspelt one is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict

from .contract import Waiting
from .errors import invalid_field
from .flow import Signal

# One default lease of 30 s, its grace, and time for the next grant.
WAIT_MS_DEFAULT = 35_000


class LeaseOptions(TypedDict, total=False):
    """How to take one lock or several."""

    # How long the lease lasts without a renewal. The service's default is 30 s. Not under a session.
    lease_ms: int
    # How long to wait. 35 s by default: longer than the default lease of a crashed holder and its grace. 0: not at all.
    wait_ms: int
    # Shown to others. By default the client's.
    owner: str
    # The wait, the retries and the answer together end within this time. By default about 2 s after the wait.
    deadline_ms: float
    # After this time nothing is renewed, so work that hangs does not hold for ever.
    hold_ms_max: float
    # If False, nothing is renewed in the background, and the lease ends by itself.
    auto_renew: bool
    # "efficiency" means that two holders at once would only waste work.
    tier: Literal["correctness", "efficiency"]
    # With "fail-open", the work runs without the lock if the service can't be reached. Only for the tier "efficiency".
    on_unavailable: Literal["fail-closed", "fail-open"]
    # Called with the place in the queue after each answer.
    on_waiting: Callable[[Waiting], None]
    # Ends the wait and gives the place up when it fires. It does not end a lease that was granted.
    cancel: Signal


class LockOptions(LeaseOptions, total=False):
    """How to take one lock."""

    # How many permits the lock has. 1 is a mutex. All callers must give the same limit.
    limit: int
    # How many permits to take.
    permits: int
    # A read-write lock: readers share. Not together with `limit` or `permits`.
    mode: Literal["exclusive", "shared"]
    # If this lease expires, nobody is granted for this time after it, because late writes may still arrive.
    lock_delay_ms: int
    # Strings that `inspect` shows to others, at most 1 KiB as JSON.
    metadata: dict[str, str]


class OnceOptions(TypedDict, total=False):
    """How a job is done once."""

    # The length of a window, by the service's clock, counted from 1970 in UTC. At most one run completes in each.
    every_ms: int
    # Moves the begin of the windows. A window should not begin when the job is usually started.
    offset_ms: int
    # How long the result of a key is kept, a day by default. Not with `every_ms`.
    keep_ms: int
    # How long to wait for the result of another caller's run, 35 s by default.
    wait_ms: int
    # With "close", a run that failed is not done again, and later callers get `OnceFailedError`.
    on_failure: Literal["open", "close"]
    lease_ms: int
    owner: str
    hold_ms_max: float
    cancel: Signal


class ElectOptions(TypedDict, total=False):
    """How to become a leader."""

    lease_ms: int
    owner: str
    metadata: dict[str, str]
    # How long `close` waits for the work to stop before the next candidate leads. 5 s by default.
    hand_over_ms: float


class WriteOptions(TypedDict, total=False):
    """How to write a record."""

    # The fence of the lock that guards the record. Required once the record has seen one.
    fence: int
    # After this time the record is absent.
    expires_in_ms: int
    deadline_ms: float


def check_options(kind: type[Any], options: Mapping[str, Any]) -> None:
    """Refuses unknown options: a misspelt `lease_ms` must not be ignored."""
    for unknown in options.keys() - kind.__annotations__.keys():
        allowed = ", ".join(sorted(kind.__annotations__))
        raise TypeError(f"{unknown!r} is not an option. There are: {allowed}.")


def fails_open(tier: str | None, on_unavailable: str | None) -> bool:
    """Failing open breaks the promise of the tier "correctness", so the caller must also choose "efficiency"."""
    if on_unavailable == "fail-open" and tier != "efficiency":
        raise invalid_field("on_unavailable", 'may be "fail-open" only with tier="efficiency"')
    return on_unavailable == "fail-open"
