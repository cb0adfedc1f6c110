"""Sends requests, and sends them again if necessary.

Every request is safe to repeat: an acquire, renew or release has a lease id, a write to a record has a version and an
id, and all others only read. A refusal (409 and the like) is final. If no answer came, or 5xx, the request may have had
its effect, and the same request again finds out. A throttled request (429) is sent again after the time that the
service asked for.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from .contract import NAME_PATTERN, NAMESPACE_PATTERN, ROUTES
from .errors import (
    ClosedError,
    HoldfastError,
    ThrottledError,
    UnavailableError,
    WaitCancelledError,
    error_of,
    invalid_field,
)
from .flow import Answer, Clock, Flow, Mark, NoAnswerError, Request, Send, Signal, T, Wait

log = logging.getLogger("holdfast")

# The first retry comes soon, because most failures are one lost packet or one restarted process. Later ones come well
# within the 5 s that a waiter may be absent from its queue.
BACKOFF_BASE_MS = 50
BACKOFF_MS_MAX = 2_000
# Five failures in a row are not by chance: each of them waited long for an answer.
BREAKER_FAILURES_MAX = 5
# Long enough for a service to restart, short enough to notice it soon.
BREAKER_OPEN_MS = 2_000


@dataclass(frozen=True)
class Policy:
    # The call and all its tries end within this time.
    deadline_ms: float
    # The time for one try.
    attempt_ms: float
    # No further try begins after this time. With 0, the request is sent once. By default the deadline.
    retry_ms: float | None = None
    # The request that is sent from the second try on.
    again: Request | None = None
    cancel: Signal | None = None
    # It passes an open breaker. For renewals and releases: they are rare, and are good probes.
    urgent: bool = False
    # It continues a wait that has its place in a queue. An open breaker delays it, but does not end it.
    goes_on: bool = False


@dataclass(frozen=True)
class Success:
    status: int
    body: Any
    # A time before the try with this answer was sent.
    sent_at: Mark
    # If it is more than one, an earlier try may already have had the effect.
    tries: int


def check_name(kind: str, name: str) -> str:
    """Names are parts of paths, so a wrong name could change the path."""
    if isinstance(name, str) and re.match(NAME_PATTERN, name) and not name.endswith("\n"):
        return name
    raise invalid_field(f"The name of a {kind}", f"must match {NAME_PATTERN}, got {str(name)[:60]!r}")


def check_namespace(namespace: str) -> str:
    if isinstance(namespace, str) and re.match(NAMESPACE_PATTERN, namespace) and not namespace.endswith("\n"):
        return namespace
    raise invalid_field("namespace", f"must match {NAMESPACE_PATTERN}, got {str(namespace)[:60]!r}")


def request_of(
    operation: str,
    parameters: Mapping[str, str],
    body: Mapping[str, Any] | None = None,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Request:
    """One request of the contract. Values that are None are not sent, except that of a record, which may be null."""
    method, route = ROUTES[operation]
    path = route.format(**{key: quote(value, safe=":@=+~") for key, value in parameters.items()})
    asked = urlencode({key: value for key, value in (query or {}).items() if value is not None})
    sent = dict(headers or {})
    text = None
    if body is not None:
        sent["content-type"] = "application/json"
        try:
            text = json.dumps(
                {key: value for key, value in body.items() if value is not None or key == "value"}
            ).encode()
        except (TypeError, ValueError) as error:
            raise invalid_field("The body", f"must be JSON: {error}") from error
    return Request(operation, method, f"{path}?{asked}" if asked else path, sent, text)


def has_fired(cancel: Signal | None) -> None:
    """Raises if the caller has cancelled, or the client closes."""
    if cancel is not None and cancel.fired:
        raise cancel.reason or WaitCancelledError("The caller cancelled.")


def pause(ms: float, cancel: Signal | None = None) -> Flow[None]:
    yield Wait(ms, () if cancel is None else (cancel,))
    has_fired(cancel)


def read(kind: Callable[[Any], T], body: Any) -> T:
    """An answer as its type. A field that is missing says that the answer is not the service's."""
    try:
        return kind(body)
    except (KeyError, TypeError, AttributeError) as error:
        raise HoldfastError(f"The answer has another form than expected: {error!r}.") from None


class Breaker:
    """A client must not load a service that is unavailable.

    After some failures in a row it opens, and callers fail at once. After a while it lets one request pass: the probe.
    If the probe is answered, the breaker closes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._opened_at: Mark | None = None
        self._probed_at: Mark | None = None

    def admit(self) -> float:
        """How long to wait before sending. With 0 the caller may send."""
        if self._opened_at is None:
            return 0
        left_ms = BREAKER_OPEN_MS - self._clock.elapsed_ms(self._opened_at)
        if left_ms > 0:
            return left_ms
        # There is one probe at a time. It may be a wait that takes long, so after a while another one may pass.
        if self._probed_at is not None:
            probed_ms = self._clock.elapsed_ms(self._probed_at)
            if probed_ms < BREAKER_OPEN_MS:
                return BREAKER_OPEN_MS - probed_ms
        self._probed_at = self._clock.mark()
        return 0

    def succeeded(self) -> None:
        """The service answered, even if it refused."""
        self._failures = 0
        self._probed_at = None
        if self._opened_at is not None:
            self._opened_at = None
            log.info("The service answers again.")

    def failed(self) -> None:
        self._failures += 1
        self._probed_at = None
        if self._failures < BREAKER_FAILURES_MAX:
            return
        if self._opened_at is None:
            log.warning("The service did not answer %d times in a row.", self._failures)
        self._opened_at = self._clock.mark()

    def left(self) -> None:
        """The caller gave its request up. That says nothing about the service."""
        self._probed_at = None


class Caller:
    def __init__(self, clock: Clock, target: str) -> None:
        self._clock = clock
        self._target = target
        self._breaker = Breaker(clock)
        # Fires when the client is closed for good. Requests that are still open are given up.
        self.closed = Signal()

    def call(self, request: Request, policy: Policy) -> Flow[Success]:
        clock = self._clock
        retry_ms = policy.deadline_ms if policy.retry_ms is None else policy.retry_ms
        began = clock.mark()
        failure: HoldfastError | None = None
        attempt = 0
        while True:
            has_fired(policy.cancel)
            sent_at = clock.mark()
            left_ms = max(1.0, policy.deadline_ms - clock.elapsed_ms(began))
            sent = request if attempt == 0 else (policy.again or request)
            try:
                answer = yield from self._admitted(sent, replace(policy, attempt_ms=min(policy.attempt_ms, left_ms)))
                return Success(answer.status, answer.body, sent_at, attempt + 1)
            except (UnavailableError, ThrottledError) as error:
                circuit_open = isinstance(error, UnavailableError) and error.circuit_open
                # If the breaker is open before the first try, the caller fails at once.
                if circuit_open and attempt == 0 and not policy.goes_on:
                    raise
                # The failure that opened the breaker says more than the open breaker.
                if not circuit_open or failure is None:
                    failure = error
                delay_ms = error.retry_after_ms + clock.backoff_ms(attempt, BACKOFF_BASE_MS, BACKOFF_MS_MAX)
                if clock.elapsed_ms(began) + delay_ms >= min(retry_ms, policy.deadline_ms):
                    raise failure from None
                log.debug("%s is sent again: %s", request.operation, error)
            yield from pause(delay_ms, policy.cancel)
            attempt += 1

    def _admitted(self, request: Request, policy: Policy) -> Flow[Answer]:
        breaker = self._breaker
        wait_ms = 0 if policy.urgent else breaker.admit()
        if wait_ms > 0:
            closed_soon = UnavailableError("The service did not answer several times in a row, so nothing is sent now.")
            closed_soon.retry_after_ms = wait_ms
            closed_soon.circuit_open = True
            raise closed_soon
        try:
            answer = yield from self._send(request, policy)
        except UnavailableError:
            breaker.failed()
            raise
        except BaseException:
            breaker.left()
            raise
        refusal = None if 200 <= answer.status < 300 else error_of(answer.status, answer.headers, answer.body)
        if isinstance(refusal, UnavailableError):
            breaker.failed()
        else:
            breaker.succeeded()
        if refusal is not None:
            raise refusal
        return answer

    def _send(self, request: Request, policy: Policy) -> Flow[Answer]:
        if self.closed.fired:
            raise ClosedError("The client is closed.")
        cancel = (self.closed,) if policy.cancel is None else (self.closed, policy.cancel)
        try:
            answer: Answer = yield Send(request, policy.attempt_ms, cancel)
            if 200 <= answer.status < 300 and not isinstance(answer.body, dict):
                raise NoAnswerError("the answer is not JSON, so it is not the service's")
            return answer
        except NoAnswerError as error:
            has_fired(policy.cancel)
            if self.closed.fired:
                raise ClosedError("The client is closed.") from None
            # With the address: a wrong address is the most common reason for no answer.
            raise UnavailableError(f"The service at {self._target} can't be reached: {error}.") from error
