"""The client without I/O: what is held, and every operation as a flow."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from .caller import Caller, Policy, Success, check_name, check_namespace, log, pause, read, request_of
from .contract import (
    AcquireLockBody,
    AcquireLocksBody,
    CreateSessionBody,
    FenceCheck,
    Health,
    LockEvent,
    LockSummary,
    LockView,
    ManyReleased,
    OpenSession,
    PutRecordBody,
    RecordView,
    RecordWritten,
    Released,
    ReleaseLockBody,
    ReleaseLocksBody,
    RenewLockBody,
    RenewLocksBody,
    RevokeLockBody,
    SessionEnd,
)
from .errors import (
    ClosedError,
    HoldfastError,
    LeaseLostError,
    SessionLostError,
    TooManyRetriesError,
    UnavailableError,
    VersionMismatchError,
    WaitCancelledError,
    lease_lost,
)
from .flow import Clock, Flow, Mark, Request, Run, Signal, Spawn, Wait
from .keeper import Keeper
from .options import WAIT_MS_DEFAULT, LeaseOptions, LockOptions, WriteOptions, check_options, fails_open
from .sockets import Sockets
from .waiting import Asked, LeaseCalls, Patience, Taken, take

# A caller that fails open wants to go on soon. One second is enough for a retry.
FAIL_OPEN_MS = 1_000
# With random pauses, ten writers at once all succeed.
UPDATE_TRIES_MAX = 10
UPDATE_BACKOFF_MS = 20
UPDATE_BACKOFF_MS_MAX = 1_000


class Release(NamedTuple):
    """If `released` is False and the reason is not "already_released", the lease had ended before."""

    released: bool
    reason: str


class Tenure(Protocol):
    """The time for which something is held."""

    lost: Signal

    def is_alive(self) -> bool: ...

    def remaining_ms(self) -> float: ...

    def renew(self, lease_ms: int | None = None, /) -> Flow[None]: ...

    def end(self) -> None: ...


@dataclass(frozen=True)
class Defaults:
    owner: str | None = None
    lease_ms: int | None = None
    wait_ms: int | None = None
    tier: Literal["correctness", "efficiency"] | None = None
    on_unavailable: Literal["fail-closed", "fail-open"] | None = None


class SessionTenure:
    """Held as long as a session lives. The session is renewed, not the lock."""

    def __init__(self, label: str, session: Keeper, verify: Callable[[], Flow[Success]]) -> None:
        self._session = session
        self._verify = verify
        self._ended = False
        self.lost = Signal()
        over = lease_lost(f"The session that holds {label} is over.", "session_lost")
        self._stop = session.lost.listen(lambda: self._lose(over))

    def _lose(self, error: LeaseLostError) -> None:
        if not self._ended:
            self.lost.fire(error)

    def is_alive(self) -> bool:
        # If the session's time has passed, this call fires the session's signal, and then this one.
        return not self._ended and not self.lost.fired and self._session.is_alive()

    def remaining_ms(self) -> float:
        return self._session.remaining_ms() if self.is_alive() else 0.0

    def renew(self, _lease_ms: int | None = None) -> Flow[None]:
        """Only asks the service whether the lock is still held."""
        try:
            yield from self._verify()
        except LeaseLostError as error:
            self._lose(error)
            raise

    def end(self) -> None:
        self._ended = True
        self._stop()


class OpenTenure:
    """Not held at all: the service could not be reached, and the caller chose to fail open."""

    def __init__(self) -> None:
        self.lost = Signal()

    def is_alive(self) -> bool:
        return False

    def remaining_ms(self) -> float:
        return 0.0

    def renew(self, _lease_ms: int | None = None) -> Flow[None]:
        yield from ()

    def end(self) -> None:
        return


class Hold:
    """One lease that is held, on one lock or several."""

    def __init__(self, core: Core, calls: LeaseCalls | None, tenure: Tenure, body: Mapping[str, Any]) -> None:
        self._core = core
        self._calls = calls
        self.tenure = tenure
        self.body = body
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._releasing: Signal | None = None
        self._release = Release(False, "already_released")
        self._failure: HoldfastError | None = None
        # A lock of a session is released with the session.
        if calls is not None and not calls.session_bound:
            core.open[self] = self.release

    @property
    def failed_open(self) -> bool:
        return self._calls is None

    def check(self) -> None:
        """Raises if the lease is lost."""
        self.tenure.is_alive()
        if self.tenure.lost.reason is not None:
            raise self.tenure.lost.reason
        if os.getpid() != self._pid:
            raise lease_lost("This process was forked from the one that holds the lock.", "unconfirmed")

    def release(self, deadline_ms: float | None = None) -> Flow[Release]:
        """Safe to repeat. Raises only if the service is unavailable: then the lease expires by itself."""
        if os.getpid() != self._pid:
            return Release(False, "already_released")
        with self._mutex:
            releasing = self._releasing
            if releasing is None:
                self._releasing = Signal()
        if releasing is not None:
            yield Wait(None, (releasing,))
        else:
            try:
                self._release = yield from self._give_back(deadline_ms)
            except HoldfastError as error:
                self._failure = error
            finally:
                assert self._releasing is not None
                self._releasing.fire()
        if self._failure is not None:
            raise self._failure
        return self._release

    def _give_back(self, deadline_ms: float | None) -> Flow[Release]:
        core, calls = self._core, self._calls
        self.tenure.end()
        core.open.pop(self, None)
        if calls is None:
            return Release(True, "ok")
        try:
            answer = yield from core.caller.call(calls.release(), core.patience.release_policy(deadline_ms))
        except LeaseLostError as error:
            return Release(False, error.reason)
        except HoldfastError as error:
            log.warning("%s could not be released, so its lease expires by itself: %s", calls.label, error)
            raise
        return _release_of(answer)

    def detach(self) -> str:
        """Stops renewing, and does not release. Returns the lease id."""
        self.tenure.end()
        self._core.open.pop(self, None)
        with self._mutex:
            if self._releasing is None:
                self._releasing = Signal()
                self._releasing.fire()
        return "" if self._calls is None else self._calls.lease_id

    def release_after_work(self, deadline_ms: float | None = None) -> Flow[None]:
        """Raises if the lease ended before the work did: another holder may have worked at the same time."""
        self.tenure.is_alive()
        lost = self.tenure.lost.reason
        try:
            release = yield from self.release(deadline_ms)
        except HoldfastError:
            # The work has still succeeded. The lease expires by itself.
            release = Release(True, "ok")
        if lost is not None:
            raise lost
        if not release.released and release.reason != "already_released":
            raise lease_lost("The lease ended before the work did.", release.reason)

    def release_after_failure(self, deadline_ms: float | None = None) -> Flow[None]:
        """The caller must see the error of the work, even if the release fails."""
        try:
            yield from self.release(deadline_ms)
        except HoldfastError:
            return


def _release_of(answer: Success) -> Release:
    # If the release was sent more than once, an earlier try released the lease and its answer was lost.
    repeated = answer.tries > 1
    if "failed" in answer.body:
        failed = [one.reason for one in read(ManyReleased.read, answer.body).failed]
        # A lost lease says more than a lock that was released before.
        worst = next((one for one in failed if one != "already_released"), failed[0] if failed else None)
        if worst is None or (repeated and worst == "already_released"):
            return Release(True, "ok")
        return Release(False, worst)
    body = read(Released.read, answer.body)
    if body.reason == "already_released" and repeated:
        return Release(True, "ok")
    return Release(body.released, body.reason)


class Core:
    """What the parts of one client share."""

    def __init__(
        self,
        namespace: str,
        target: str,
        *,
        defaults: Defaults | None = None,
        patience: Patience | None = None,
        clock: Clock | None = None,
        has_sockets: bool = False,
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.defaults = defaults or Defaults()
        fails_open(self.defaults.tier, self.defaults.on_unavailable)
        self.patience = patience or Patience()
        self.clock = clock or Clock()
        self.caller = Caller(self.clock, target)
        self.sockets = Sockets(namespace, self.clock, self.caller, has_sockets)
        # Everything that is held or open now, and how `close` ends it.
        self.open: dict[object, Callable[[], Flow[Any]]] = {}
        # What `close` waits for: requests that no caller waits for.
        self._background: set[Signal] = set()
        # Fires when the client begins to close. Then waits end.
        self.closing = Signal()

    # Requests

    def ask(self, request: Request, deadline_ms: float | None = None, cancel: Signal | None = None) -> Flow[Any]:
        """One request that does not wait, with its retries. Returns the body."""
        limit_ms = self.patience.retry_ms if deadline_ms is None else deadline_ms
        answer = yield from self.caller.call(request, Policy(limit_ms, self.patience.request_ms, cancel=cancel))
        return answer.body

    def at(self, **more: str) -> dict[str, str]:
        return {"ns": self.namespace, **more}

    def spawn_counted(self, flow: Flow[Any]) -> Flow[Signal]:
        done: Signal = yield Spawn(flow, keeps_alive=True)
        self._background.add(done)
        done.listen(lambda: self._background.discard(done))
        return done

    @contextmanager
    def cancelled_by(self, *signals: Signal | None) -> Iterator[Signal]:
        """A signal that fires with the first of these, or when the client closes."""
        joined = Signal()
        listened = [
            one.listen(lambda one=one: _pass_on(one, joined))  # type: ignore[misc]
            for one in (self.closing, *signals)
            if one is not None
        ]
        try:
            yield joined
        finally:
            for stop in listened:
                stop()

    def close(self) -> Flow[None]:
        """Ends all waits, stops renewing and releases everything that is held."""
        self.closing.fire(ClosedError("The client was closed."))
        done: Signal = yield Spawn(self._give_all_back(), keeps_alive=True)
        yield Wait(self.patience.release_ms, (done,))
        self.sockets.is_possible = False
        self.sockets.close_live()
        self.caller.closed.fire()

    def _give_all_back(self) -> Flow[None]:
        # A wait gives its place back only after it has ended, so it looks until nothing new is there.
        while self.open or self._background:
            opened, pending = list(self.open.items()), list(self._background)
            for one, end in opened:
                self.open.pop(one, None)
                pending.append((yield Spawn(_quietly(end()), keeps_alive=True)))
            for done in pending:
                yield Wait(None, (done,))

    # Locks

    def acquire(self, name: str, options: LockOptions, session: OpenedSession | None = None) -> Flow[Hold]:
        check_options(LockOptions, options)
        check_name("lock", name)
        session_id = None if session is None else session.id
        fields: AcquireLockBody = {
            "leaseMs": self._lease_ms(options, session),
            "owner": options.get("owner", self.defaults.owner),
            "sessionId": session_id,
            "limit": options.get("limit"),
            "permits": options.get("permits"),
            "mode": options.get("mode"),
            "lockDelayMs": options.get("lock_delay_ms"),
            "metadata": options.get("metadata"),
            "tier": options.get("tier", self.defaults.tier),
        }
        unheld = {"lock": name, "fence": 0, "limit": options.get("limit", 1), "permits": options.get("permits", 1)}
        new_calls = self.lock_calls(name, fields, session_id)
        return (yield from self._take(name, new_calls, options, session, {**unheld, "waitedMs": 0}))

    def acquire_all(
        self, entries: Sequence[str | Mapping[str, Any]], options: LeaseOptions, session: OpenedSession | None = None
    ) -> Flow[Hold]:
        check_options(LeaseOptions, options)
        names = [check_name("lock", one if isinstance(one, str) else one["name"]) for one in entries]
        session_id = None if session is None else session.id

        def new_calls(lease_id: str) -> LeaseCalls:
            fields: AcquireLocksBody = {
                "locks": list(entries),
                "leaseId": lease_id,
                "leaseMs": self._lease_ms(options, session),
                "owner": options.get("owner", self.defaults.owner),
                "sessionId": session_id,
            }

            def renew(lease_ms: int | None) -> Request:
                body: RenewLocksBody = {"leaseId": lease_id, "locks": names, "leaseMs": lease_ms}
                return request_of("renewLocks", self.at(), body)

            release: ReleaseLocksBody = {"leaseId": lease_id, "locks": names}
            return LeaseCalls(
                label=", ".join(names),
                lease_id=lease_id,
                session_bound=session is not None,
                sends_whole_wait=True,
                acquire=lambda wait_ms, *_: request_of("acquireLocks", self.at(), {**fields, "waitMs": wait_ms}),
                renew=renew,
                release=lambda: request_of("releaseLocks", self.at(), release),
            )

        unheld = {"grants": [{"lock": name, "fence": 0} for name in names], "waitedMs": 0}
        return (yield from self._take(", ".join(names), new_calls, options, session, unheld))

    def adopt(self, name: str, lease_id: str, options: LeaseOptions) -> Flow[Hold]:
        """Goes on with a lease that was granted elsewhere."""
        check_options(LeaseOptions, options)
        calls = self.lock_calls(check_name("lock", name), {}, None)(lease_id)
        limit_ms = options.get("deadline_ms", self.patience.retry_ms)
        policy = Policy(limit_ms, self.patience.request_ms, cancel=options.get("cancel"))
        answer = yield from self.caller.call(calls.renew(options.get("lease_ms")), policy)
        remaining_ms = float(answer.body.get("remainingMs") or 0)
        return (yield from self._hold(Taken(calls, answer.body, answer.sent_at, remaining_ms), options, None))

    def _lease_ms(self, options: LeaseOptions, session: OpenedSession | None) -> int | None:
        # A lock under a session ends with it.
        return options.get("lease_ms", self.defaults.lease_ms if session is None else None)

    def lock_calls(self, name: str, fields: AcquireLockBody, session_id: str | None) -> Callable[[str], LeaseCalls]:
        at = self.at(name=name)

        def new_calls(lease_id: str) -> LeaseCalls:
            def acquire(wait_ms: int, poll_ms: int | None, place: int | Literal["new"] | None) -> Request:
                asked = {"leaseId": lease_id, "waitMs": wait_ms, "pollMs": poll_ms}
                return request_of("acquireLock", at, {**fields, **asked, "place": place if wait_ms > 0 else None})

            def park(wait_ms: int, connection_id: str, place: int | None) -> Request:
                notify = {"type": "websocket", "connectionId": connection_id}
                asked = {"leaseId": lease_id, "waitMs": wait_ms, "place": place, "notify": notify}
                return request_of("acquireLock", at, {**fields, **asked})

            def renew(lease_ms: int | None) -> Request:
                body: RenewLockBody = {"leaseId": lease_id, "leaseMs": lease_ms}
                return request_of("renewLock", at, body)

            release: ReleaseLockBody = {"leaseId": lease_id}
            return LeaseCalls(
                label=name,
                lease_id=lease_id,
                session_bound=session_id is not None,
                sends_whole_wait=False,
                acquire=acquire,
                renew=renew,
                release=lambda: request_of("releaseLock", at, release),
                park=park,
            )

        return new_calls

    def _take(
        self,
        label: str,
        new_calls: Callable[[str], LeaseCalls],
        options: LeaseOptions,
        session: OpenedSession | None,
        unheld: dict[str, Any],
    ) -> Flow[Hold]:
        defaults = self.defaults
        fail_open = fails_open(
            options.get("tier", defaults.tier), options.get("on_unavailable", defaults.on_unavailable)
        )
        wait_ms = options.get("wait_ms", WAIT_MS_DEFAULT if defaults.wait_ms is None else defaults.wait_ms)
        ended = Signal()
        self._background.add(ended)
        try:
            with self.cancelled_by(options.get("cancel")) as cancel:
                asked = Asked(
                    wait_ms=wait_ms,
                    cancel=cancel,
                    deadline_ms=options.get("deadline_ms"),
                    unavailable_ms=FAIL_OPEN_MS if fail_open else None,
                    on_waiting=options.get("on_waiting"),
                )
                taken = yield from take(self, new_calls, asked)
            return (yield from self._hold(taken, options, session))
        except UnavailableError as error:
            if not fail_open:
                raise
            log.warning("%s is not held, and the caller goes on without it: %s", label, error)
            return Hold(self, None, OpenTenure(), unheld)
        finally:
            self._background.discard(ended)
            ended.fire()

    def _hold(self, taken: Taken, options: LeaseOptions, session: OpenedSession | None) -> Flow[Hold]:
        calls = taken.calls
        if session is not None:
            once = Policy(self.patience.retry_ms, self.patience.request_ms)
            return Hold(
                self,
                calls,
                SessionTenure(calls.label, session.keeper, lambda: self.caller.call(calls.renew(None), once)),
                taken.body,
            )
        label = calls.label
        message = f"The lease on {label} could not be renewed in time, so it may have ended: stop what it protects."
        keeper = Keeper(
            self.clock,
            self.caller,
            name=label,
            since=taken.since,
            remaining_ms=taken.remaining_ms,
            lease_ms=float(taken.body.get("leaseMs") or taken.remaining_ms),
            renewal=calls.renew,
            unconfirmed=lambda: lease_lost(message, "unconfirmed"),
            # Without automatic renewal, the holder may still call `renew`.
            hold_ms_max=options.get("hold_ms_max") if options.get("auto_renew", True) else 0,
        )
        hold = Hold(self, calls, keeper, taken.body)
        yield Spawn(keeper.keep())
        return hold

    # What others see

    def inspect(self, name: str) -> Flow[LockView]:
        return read(LockView.read, (yield from self.ask(request_of("inspectLock", self._at_lock(name)))))

    def check_fence(self, name: str, fence: int) -> Flow[FenceCheck]:
        request = request_of("checkFence", self._at_lock(name), query={"fence": fence})
        return read(FenceCheck.read, (yield from self.ask(request)))

    def revoke(self, name: str, fence: int, reason: str) -> Flow[None]:
        body: RevokeLockBody = {"fence": fence, "reason": reason}
        yield from self.ask(request_of("revokeLock", self._at_lock(name), body))

    def list_page(
        self, prefix: str | None, state: str | None, cursor: str | None
    ) -> Flow[tuple[list[LockSummary], str | None]]:
        query = {"prefix": prefix, "state": state, "cursor": cursor}
        body = yield from self.ask(request_of("listLocks", self.at(), query=query))
        return read(lambda page: [LockSummary.read(one) for one in page["locks"]], body), body.get("cursor")

    def history_page(self, name: str, cursor: str | None) -> Flow[tuple[list[LockEvent], str | None]]:
        body = yield from self.ask(request_of("lockHistory", self._at_lock(name), query={"cursor": cursor}))
        return read(lambda page: [LockEvent.read(one) for one in page["events"]], body), body.get("cursor")

    def health(self) -> Flow[Health]:
        return read(Health.read, (yield from self.ask(request_of("health", {}))))

    def _at_lock(self, name: str) -> dict[str, str]:
        return self.at(name=check_name("lock", name))

    # Sessions

    def open_session(self, ttl_ms: int | None, owner: str | None) -> Flow[OpenedSession]:
        """If the answer is lost, the retry opens another session, and the first, without locks, ends by itself."""
        body: CreateSessionBody = {"ttlMs": ttl_ms, "owner": owner or self.defaults.owner}
        policy = Policy(self.patience.retry_ms, self.patience.request_ms)
        answer = yield from self.caller.call(request_of("createSession", self.at(), body), policy)
        session = OpenedSession(self, read(OpenSession.read, answer.body), answer.sent_at)
        yield Spawn(session.keeper.keep())
        return session

    # Records

    def get_record(self, key: str, deadline_ms: float | None = None) -> Flow[RecordView | None]:
        request = request_of("getRecord", self.at(key=check_name("record", key)))
        try:
            return read(RecordView.read, (yield from self.ask(request, deadline_ms)))
        except HoldfastError as error:
            if error.code == "not-found":
                return None
            raise

    def put_record(self, key: str, value: Any, if_match: str | None, options: WriteOptions) -> Flow[RecordWritten]:
        """Writes the value if the record is as expected. None: there must be none."""
        body: PutRecordBody = {"value": value, "expiresInMs": options.get("expires_in_ms")}
        return (yield from self._write("putRecord", key, body, if_match, options))

    def delete_record(self, key: str, if_match: str, options: WriteOptions) -> Flow[RecordWritten]:
        return (yield from self._write("deleteRecord", key, None, if_match, options))

    def _write(
        self, operation: str, key: str, body: Mapping[str, Any] | None, if_match: str | None, options: WriteOptions
    ) -> Flow[RecordWritten]:
        check_options(WriteOptions, options)
        headers = {"if-none-match": "*"} if if_match is None else {"if-match": if_match}
        # If the same write is repeated after a lost answer, it gets the same answer.
        headers["write-id"] = self.clock.new_id()
        fence = options.get("fence")
        if fence is not None:
            headers["fence-token"] = str(fence)
        request = request_of(operation, self.at(key=check_name("record", key)), body, headers=headers)
        return read(RecordWritten.read, (yield from self.ask(request, options.get("deadline_ms"))))

    def update_record(self, key: str, compute: Callable[[Any], Any], options: WriteOptions) -> Flow[Any]:
        """Reads, computes and writes. If another writer came first, it begins again."""
        check_options(WriteOptions, options)
        clock, began = self.clock, self.clock.mark()
        limit_ms = options.get("deadline_ms")
        tries = 0
        while True:
            tries += 1
            left_ms = None if limit_ms is None else max(1.0, limit_ms - clock.elapsed_ms(began))
            current = yield from self.get_record(key, left_ms)
            known = None if current is None else current.value
            value = yield Run(lambda known=known: compute(known))  # type: ignore[misc]
            if_match = None if current is None else f'"{current.version}"'
            within: WriteOptions = {**options}
            if limit_ms is not None:
                within["deadline_ms"] = max(1.0, limit_ms - clock.elapsed_ms(began))
            try:
                yield from self.put_record(key, value, if_match, within)
                return value
            except VersionMismatchError as error:
                if tries >= UPDATE_TRIES_MAX:
                    raise TooManyRetriesError(f"Others wrote to the record {key} in between, {tries} times.") from error
            yield from pause(clock.backoff_ms(tries, UPDATE_BACKOFF_MS, UPDATE_BACKOFF_MS_MAX))


class OpenedSession:
    """One keepalive for all the locks that are taken under it."""

    def __init__(self, core: Core, opened: OpenSession, since: Mark) -> None:
        self._core = core
        self.id = opened.session_id
        at = core.at(id=opened.session_id)
        self.keeper = Keeper(
            core.clock,
            core.caller,
            name="The session",
            since=since,
            remaining_ms=opened.remaining_ms,
            lease_ms=opened.ttl_ms,
            renewal=lambda _: request_of("keepSessionAlive", at, {}),
            unconfirmed=lambda: SessionLostError("The session could not be kept alive in time, so it may have ended."),
        )
        self._pid = os.getpid()
        self._ended: SessionEnd | None = None
        core.open[self] = self.end

    def end(self) -> Flow[SessionEnd]:
        """Ends the session and releases all its locks. Safe to repeat."""
        core = self._core
        if self._ended is not None or os.getpid() != self._pid:
            return self._ended or SessionEnd(False)
        self.keeper.end()
        core.open.pop(self, None)
        request = request_of("endSession", core.at(id=self.id))
        answer = yield from core.caller.call(request, core.patience.release_policy())
        ended = read(SessionEnd.read, answer.body)
        # If the request was sent more than once, an earlier try ended the session.
        self._ended = SessionEnd(ended.ended or answer.tries > 1, ended.released)
        return self._ended

    def end_quietly(self) -> Flow[None]:
        """If it can't be sent, the session ends by itself."""
        yield from _quietly(self.end())


def _pass_on(one: Signal, joined: Signal) -> None:
    joined.fire(one.reason or WaitCancelledError("The caller cancelled."))


def _quietly(flow: Flow[Any]) -> Flow[None]:
    try:
        yield from flow
    except HoldfastError:
        return


def run_under(hold: Hold, work: Callable[[], Any], release_ms: Callable[[], float] | None = None) -> Flow[Any]:
    """Runs the work and releases in every case. If both fail, the caller gets the error of the work."""
    try:
        result = yield Run(work)
    except GeneratorExit:
        raise
    except BaseException:
        yield from hold.release_after_failure(None if release_ms is None else release_ms())
        raise
    yield from hold.release_after_work(None if release_ms is None else release_ms())
    return result
