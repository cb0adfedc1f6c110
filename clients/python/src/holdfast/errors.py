"""Every error has a `code`. It is the service's problem code, or one of the client's own."""

from __future__ import annotations

from typing import Any

from .contract import PROBLEMS, HolderView


class HoldfastError(Exception):
    """The service refused, or could not be reached. `code` says which."""

    code = "unexpected-answer"

    def __init__(
        self, message: str, *, code: str | None = None, status: int | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        # The HTTP status, if the service answered.
        self.status = status
        # Finds the request in the service's log.
        self.request_id = request_id


class InvalidRequestError(HoldfastError, ValueError):
    """A value is not allowed. `errors` names each field."""

    code = "invalid-request"
    errors: tuple[tuple[str, str], ...] = ()


class BlockedError(HoldfastError):
    """Others hold the lock."""

    holders: tuple[HolderView, ...] = ()
    queue_depth: int = 0
    # If several locks were asked for: the ones that others hold.
    blocked_by: tuple[str, ...] = ()


class LockHeldError(BlockedError):
    """The lock is held, and the caller did not want to wait."""

    code = "lock-held"
    retry_after_ms: float = 0


class WaitTimeoutError(BlockedError):
    """The wait is over, and the lock was not granted."""

    code = "wait-timeout"


class LeaseLostError(HoldfastError):
    """The lease is over. `reason` says why. Stop what it protects: another may hold the lock."""

    code = "lease-lost"
    reason: str = "unconfirmed"


class SessionLostError(HoldfastError):
    """The session is over, and all its locks with it."""

    code = "session-lost"


class DeadlockError(HoldfastError):
    """Waiting would never end. `cycle` has each wait of the circle."""

    code = "deadlock"
    cycle: tuple[dict[str, str], ...] = ()


class StaleFenceError(HoldfastError):
    """A later holder has written. `floor` is the highest fence that the record has seen."""

    code = "stale-fence"
    floor: int = 0


class VersionMismatchError(HoldfastError):
    """The record has another version. None: there is no such record."""

    code = "version-mismatch"
    version: int | None = None


class LimitMismatchError(HoldfastError):
    """The lock is in use with another limit."""

    code = "limit-mismatch"
    limit: int = 0


class UnavailableError(HoldfastError):
    """No answer, or one that says that the service can't work now. The request may have had its effect."""

    code = "unavailable"
    retry_after_ms: float = 0
    # True if the breaker was open, so nothing was sent.
    circuit_open: bool = False


class ThrottledError(HoldfastError):
    """Too many requests. The request had no effect."""

    code = "throttled"
    retry_after_ms: float = 0


class QueueFullError(HoldfastError):
    """Too many wait for this lock."""

    code = "queue-full"
    retry_after_ms: float = 0


class TooManyRetriesError(HoldfastError):
    """Others changed the record in between, each time."""

    code = "too-many-retries"


class OnceFailedError(HoldfastError):
    """The job failed in an earlier run, and `on_failure="close"` says that it is not done again."""

    code = "once-failed"


class WaitCancelledError(HoldfastError):
    """The caller cancelled the wait."""

    code = "cancelled"


class ClosedError(HoldfastError):
    """The client is closed."""

    code = "closed"


_classes: dict[str, type[HoldfastError]] = {
    one.code: one
    for one in (
        InvalidRequestError,
        LockHeldError,
        WaitTimeoutError,
        LeaseLostError,
        SessionLostError,
        DeadlockError,
        StaleFenceError,
        VersionMismatchError,
        LimitMismatchError,
        UnavailableError,
        ThrottledError,
        QueueFullError,
    )
}
_classes["internal"] = UnavailableError

# A gateway or proxy in front of the service refuses without a code. Then the status says what happened, but 409 may
# mean anything.
_code_of_status = {status: code for code, status in PROBLEMS.items() if status != 409}
_code_of_status |= {429: "throttled", 408: "unavailable", 502: "unavailable", 504: "unavailable"}


def error_of(status: int, headers: dict[str, str], body: Any) -> HoldfastError:
    """The error that an answer means. Only for answers that are not successes."""
    problem: dict[str, Any] = body if isinstance(body, dict) else {}
    code = problem.get("code")
    if not isinstance(code, str):
        code = _code_of_status.get(status, "unexpected-answer")
    said = next((text for key in ("detail", "message") if isinstance(text := problem.get(key), str)), None)
    message = said or f"The service answered {status}."
    error = _classes.get(code, HoldfastError)(message, code=code, status=status, request_id=headers.get("x-request-id"))
    _read_fields(error, problem, headers)
    return error


def _read_fields(error: HoldfastError, problem: dict[str, Any], headers: dict[str, str]) -> None:
    if isinstance(error, (LockHeldError, UnavailableError, ThrottledError, QueueFullError)):
        error.retry_after_ms = _retry_after_ms(problem, headers)
    if isinstance(error, InvalidRequestError):
        error.errors = tuple((one["field"], one["message"]) for one in problem.get("errors", ()))
    if isinstance(error, BlockedError):
        error.holders = tuple(HolderView.read(one) for one in problem.get("holders", ()))
        error.queue_depth = problem.get("queueDepth", 0)
        error.blocked_by = tuple(problem.get("blockedBy", ()))
    if isinstance(error, LeaseLostError):
        error.reason = problem.get("reason", "not_owner")
    if isinstance(error, DeadlockError):
        error.cycle = tuple(problem.get("cycle", ()))
    if isinstance(error, StaleFenceError):
        error.floor = problem.get("fenceFloor", 0)
    if isinstance(error, VersionMismatchError):
        error.version = problem.get("version")
    if isinstance(error, LimitMismatchError):
        error.limit = problem.get("limit", 0)


def _retry_after_ms(problem: dict[str, Any], headers: dict[str, str]) -> float:
    asked = problem.get("retryAfterMs")
    if isinstance(asked, (int, float)) and asked >= 0:
        return float(asked)
    try:
        return max(0.0, float(headers.get("retry-after", "0")) * 1_000)
    except ValueError:
        return 0


def invalid_field(name: str, message: str) -> InvalidRequestError:
    error = InvalidRequestError(f"{name} {message}.")
    error.errors = ((name, message),)
    return error


def lease_lost(message: str, reason: str) -> LeaseLostError:
    error = LeaseLostError(message)
    error.reason = reason
    return error
