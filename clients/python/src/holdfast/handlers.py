"""Locks around Lambda handlers. No lease is longer than the invocation, and a wait leaves time to fail cleanly."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .client import Holdfast, Lock
from .contract import LEASE_MS_DEFAULT, LEASE_MS_MIN
from .core import run_under
from .errors import HoldfastError, LockHeldError
from .options import LockOptions, OnceOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Reserved at the end of the invocation for the release and the answer.
RESERVE_MS = 500
# For an acquire that gets no answer from the service.
DEADLINE_MS_DEFAULT = 2_000
# Reserved for the answer after the release. A release takes tens of milliseconds. After five seconds the lease ends by
# itself.
ANSWER_MS = 100
RELEASE_MS_MIN = 100
RELEASE_MS_MAX = 5_000
# Codes that mean "not now": the same event may succeed later. All other codes are errors.
_NOT_NOW = {"lock-held", "wait-timeout", "queue-full", "throttled", "unavailable", "deadlock"}

Name = str | Callable[[Any, Any], str]
Handler = Callable[[Any, Any, Lock], Any]


def locked(
    locks: Holdfast, name: Name, *, refused_status: int = 409, **options: Unpack[LockOptions]
) -> Callable[[Handler], Callable[[Any, Any], Any]]:
    """The handler runs while the lock is held, and gets it as third argument.

    If the lock is refused, an HTTP caller gets 409, the messages of an SQS batch are delivered again, and every other
    source gets the error. If the work succeeds after its lease was lost, it fails with `LeaseLostError`.

        @locked(locks, lambda event, context: f"wallet:{event['id']}", wait_ms=2_000)
        def handler(event, context, lock): ...
    """

    def decorate(handler: Handler) -> Callable[[Any, Any], Any]:
        @functools.wraps(handler)
        def wrapped(event: Any, context: Any) -> Any:
            try:
                lock = locks.acquire(_name_for(name, event, context), **_within(locks, options, context))
            except HoldfastError as error:
                return _answer_refusal(event, error, refused_status)
            work = run_under(lock._hold, lambda: handler(event, context, lock), lambda: _release_ms(context))
            return lock._driver.run(work)

        return wrapped

    return decorate


def once(
    locks: Holdfast, key: Name, *, refused_status: int = 409, **options: Unpack[OnceOptions]
) -> Callable[[Handler], Callable[[Any, Any], Any]]:
    """The handler works on each event once. Repeats of an event, even at the same time, get the first answer.

    The answer must be JSON. After an error, or an HTTP answer of 500 and above, the next repeat runs the handler again.
    """

    def decorate(handler: Handler) -> Callable[[Any, Any], Any]:
        @functools.wraps(handler)
        def wrapped(event: Any, context: Any) -> Any:
            entered: list[bool] = []

            def work(lock: Lock) -> Any:
                entered.append(True)
                answer = handler(event, context, lock)
                status = answer.get("statusCode") if isinstance(answer, dict) else None
                if isinstance(status, int) and status >= 500:
                    raise _FailedAnswer(answer)
                return answer

            asked: LockOptions = {"wait_ms": options.get("wait_ms", locks.defaults.wait_ms or 0)}
            if "lease_ms" in options:
                asked["lease_ms"] = options["lease_ms"]
            within = _within(locks, asked, context)
            bounded: OnceOptions = {
                **options,
                "wait_ms": within["wait_ms"],
                "lease_ms": within["lease_ms"],
                "hold_ms_max": within["hold_ms_max"],
            }
            try:
                result = locks.once(_name_for(key, event, context), work, **bounded)
            except _FailedAnswer as failed:
                return failed.answer
            except HoldfastError as error:
                if entered:
                    raise
                return _answer_refusal(event, error, refused_status)
            if result.done:
                return result.value
            running = LockHeldError("Another caller is working on this event, and has no result yet.")
            return _answer_refusal(event, running, refused_status)

        return wrapped

    return decorate


class _FailedAnswer(Exception):  # noqa: N818
    """The handler's answer reports a failure. This caller gets it, and the next event runs the handler again."""

    def __init__(self, answer: Any) -> None:
        super().__init__("The handler answered 500 or above.")
        self.answer = answer


def _name_for(name: Name, event: Any, context: Any) -> str:
    return name if isinstance(name, str) else name(event, context)


def _within(locks: Holdfast, options: LockOptions, context: Any) -> LockOptions:
    """Fits the options into the rest of an invocation."""
    left_ms = max(0, int(context.get_remaining_time_in_millis()) - RESERVE_MS)
    defaults = locks.defaults
    lease_ms = options.get("lease_ms", defaults.lease_ms or LEASE_MS_DEFAULT)
    # By default it does not wait: an invocation that waits costs as much as one that works.
    wait_ms = options.get("wait_ms", defaults.wait_ms or 0)
    deadline_ms = options.get("deadline_ms", wait_ms + DEADLINE_MS_DEFAULT)
    return {
        **options,
        "lease_ms": max(LEASE_MS_MIN, min(lease_ms, left_ms)),
        "wait_ms": min(wait_ms, left_ms // 2),
        "hold_ms_max": left_ms,
        # Even if the service does not answer, the invocation ends by itself with an error.
        "deadline_ms": max(1, min(deadline_ms, left_ms)),
    }


def _release_ms(context: Any) -> float:
    left_ms = int(context.get_remaining_time_in_millis()) - ANSWER_MS
    return max(RELEASE_MS_MIN, min(RELEASE_MS_MAX, left_ms))


def _answer_refusal(event: Any, error: HoldfastError, refused_status: int) -> Any:
    if error.code not in _NOT_NOW:
        raise error
    records = event.get("Records") if isinstance(event, dict) else None
    if records and all(one.get("eventSource") == "aws:sqs" for one in records):
        # The event source needs ReportBatchItemFailures.
        return {"batchItemFailures": [{"itemIdentifier": one["messageId"]} for one in records]}
    if not isinstance(event, dict) or not ("http" in event.get("requestContext", {}) or "httpMethod" in event):
        raise error
    status = 503 if error.code == "unavailable" else refused_status
    retry_after_ms = getattr(error, "retry_after_ms", 0)
    # No owner and no fence: a caller from outside must not learn who holds a lock.
    problem = {
        "type": f"urn:holdfast:problem:{error.code}",
        "title": "The lock service cannot be reached" if status == 503 else "This request is already being worked on",
        "status": status,
        "code": error.code,
        "retryAfterMs": retry_after_ms,
    }
    headers = {
        "content-type": "application/problem+json",
        "cache-control": "no-store",
        "retry-after": str(max(1, math.ceil(retry_after_ms / 1_000))),
    }
    return {"statusCode": status, "headers": headers, "body": json.dumps(problem)}
