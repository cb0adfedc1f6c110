"""The client for asyncio. It has the same methods as the client for threads."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .aio import AsyncDriver
from .auth import Auth
from .contract import FenceCheck, Health, LockEvent, LockFence, LockSummary, LockView, RecordView, RecordWritten
from .core import Core, Defaults, Hold, OpenedSession, Release
from .errors import LockHeldError
from .flow import Clock, Spawn
from .held import ElectionBase, HeldBase, LockBase, LocksBase, RecordBase, SessionBase, TermBase
from .jobs import Candidate, Once, run_once
from .options import ElectOptions, LeaseOptions, LockOptions, OnceOptions, WriteOptions
from .threads import has_websockets, service_at
from .waiting import Patience

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

H = TypeVar("H", bound="_Held | AsyncSession")
Trace = TracebackType | None


class _Held(HeldBase):
    def __init__(self, hold: Hold, driver: AsyncDriver) -> None:
        super().__init__(hold)
        self._driver = driver
        self._lost = asyncio.Event()
        hold.tenure.lost.listen(self._lost.set)

    @property
    def lost(self) -> asyncio.Event:
        """Set *before* the lease can end on the service. Work that the lock protects must stop then."""
        self.is_held()
        return self._lost

    async def renew(self, lease_ms: int | None = None) -> None:
        """Renews now. Rarely needed: renewal runs in the background."""
        self.check()
        await self._driver.run(self._hold.tenure.renew(lease_ms))

    async def release(self, *, deadline_ms: float | None = None) -> Release:
        """Releases it. Safe to repeat. If the lease had already ended, the result says so."""
        return await self._driver.run(self._hold.release(deadline_ms))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace) -> None:
        """Releases. Raises `LeaseLostError` if the work succeeded after the lease was lost."""
        await self._driver.run(self._hold.release_after_work() if error is None else self._hold.release_after_failure())


class AsyncLock(_Held, LockBase):
    """A lock that is held. It is renewed in the background until it is released."""


class AsyncLocks(_Held, LocksBase):
    """Several locks held at once, under one lease."""


class AsyncTaking(Generic[H]):
    """Takes the lock on entering `async with`, and releases it at the end."""

    def __init__(self, acquire: Callable[[], Awaitable[H]]) -> None:
        self._acquire = acquire
        self._held: list[H] = []

    async def __aenter__(self) -> H:
        held = await self._acquire()
        self._held.append(held)
        return held

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace) -> None:
        await self._held.pop().__aexit__(kind, error, trace)


class AsyncScope:
    """Locks are taken from a client, each with its own lease, or from a session, where all end with the session."""

    _core: Core
    _driver: AsyncDriver
    _session: OpenedSession | None = None

    async def acquire(self, name: str, **options: Unpack[LockOptions]) -> AsyncLock:
        """Takes a lock, and waits in its queue. Release it, or use it in `async with`."""
        return AsyncLock(await self._driver.run(self._core.acquire(name, options, self._session)), self._driver)

    def lock(self, name: str, **options: Unpack[LockOptions]) -> AsyncTaking[AsyncLock]:
        """`async with locks.lock("wallet:42") as lock:` holds the lock in the block."""
        return AsyncTaking(lambda: self.acquire(name, **options))

    async def try_lock(self, name: str, **options: Unpack[LockOptions]) -> AsyncLock | None:
        """Tries once, without waiting. None if somebody else holds it."""
        options["wait_ms"] = 0
        try:
            return await self.acquire(name, **options)
        except LockHeldError:
            return None

    async def acquire_all(
        self, names: Sequence[str | Mapping[str, Any]], **options: Unpack[LeaseOptions]
    ) -> AsyncLocks:
        """Takes several locks at once, all or none, each with its own fence."""
        return AsyncLocks(await self._driver.run(self._core.acquire_all(names, options, self._session)), self._driver)

    def all(self, names: Sequence[str | Mapping[str, Any]], **options: Unpack[LeaseOptions]) -> AsyncTaking[AsyncLocks]:
        """`async with locks.all(["wallet:1", "wallet:2"]) as both:` holds all of them in the block."""
        return AsyncTaking(lambda: self.acquire_all(names, **options))

    def semaphore(self, name: str, limit: int, /, **options: Unpack[LockOptions]) -> AsyncTaking[AsyncLock]:
        """Up to `limit` permits are held at a time. All callers must give the same limit."""
        options["limit"] = limit
        return self.lock(name, **options)

    def read_lock(self, name: str, **options: Unpack[LockOptions]) -> AsyncTaking[AsyncLock]:
        """The shared side of a read-write lock: many readers at a time, and no writer."""
        options["mode"] = "shared"
        return self.lock(name, **options)

    def write_lock(self, name: str, **options: Unpack[LockOptions]) -> AsyncTaking[AsyncLock]:
        """The exclusive side of a read-write lock. Readers that come later wait behind a waiting writer."""
        options["mode"] = "exclusive"
        return self.lock(name, **options)


class AsyncSession(AsyncScope, SessionBase):
    """One keepalive for all the locks that are taken under it. Ending or losing it frees them all at once."""

    def __init__(self, core: Core, driver: AsyncDriver, opened: OpenedSession) -> None:
        SessionBase.__init__(self, core, opened)
        self._driver = driver
        self._session = opened
        self._lost = asyncio.Event()
        opened.keeper.lost.listen(self._lost.set)

    @property
    def lost(self) -> asyncio.Event:
        """Set before the session can end on the service."""
        self.is_alive()
        return self._lost

    async def locks(self) -> list[LockFence]:
        """Asks the service for the locks of this session."""
        return await self._driver.run(self._locks())

    async def end(self) -> int:
        """Ends the session and releases all its locks. Returns how many there were."""
        return (await self._driver.run(self._opened.end())).released or 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace) -> None:
        await self._driver.run(self._opened.end_quietly())


class AsyncRecord(RecordBase):
    """A JSON value with a version. A write says which version it replaces, and may carry the fence of its lock."""

    def __init__(self, core: Core, key: str, driver: AsyncDriver) -> None:
        super().__init__(core, key)
        self._driver = driver

    async def get(self) -> RecordView | None:
        """None if there is none."""
        return await self._driver.run(self._core.get_record(self.key))

    async def put(self, value: Any, *, version: int | str | None, **options: Unpack[WriteOptions]) -> RecordWritten:
        """Writes if the record has this version. None: there must be none. "*": any."""
        return await self._driver.run(self._core.put_record(self.key, value, self._tag(version), options))

    async def delete(self, *, version: int | str, **options: Unpack[WriteOptions]) -> RecordWritten:
        return await self._driver.run(self._core.delete_record(self.key, self._tag(version), options))

    async def update(self, compute: Callable[[Any], Any], **options: Unpack[WriteOptions]) -> Any:
        """Reads, computes and writes. The function may run more than once. It gets None if there is no record."""
        return await self._driver.run(self._core.update_record(self.key, compute, options))


class AsyncTerm(TermBase):
    # Set before another can be elected. Everything that only the leader may do must stop then.
    over: asyncio.Event


class AsyncElection(ElectionBase):
    """A candidate for leadership, until it is closed."""

    def __init__(self, candidate: Candidate, driver: AsyncDriver) -> None:
        super().__init__(candidate)
        self._driver = driver
        driver.spawn(Spawn(candidate.run()))

    async def close(self) -> None:
        """Gives leadership up. First the term's `over` is set, then the work stops, then the next candidate leads."""
        await self._driver.run(self._candidate.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace) -> None:
        await self.close()


class AsyncHoldfast(AsyncScope):
    """The client of the lock service. Each `asyncio.run` may use it."""

    def __init__(
        self,
        url: str,
        namespace: str,
        *,
        auth: Auth | None = None,
        defaults: Defaults | None = None,
        patience: Patience | None = None,
        tls: ssl.SSLContext | None = None,
        push: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        service = service_at(url, auth, tls)
        # Waiting by push needs the package websockets. Without it, the client comes back as the service asks.
        has_sockets = has_websockets() if push is None else push
        self._driver = AsyncDriver(service)
        self._core = Core(
            namespace,
            service.origin,
            defaults=defaults,
            patience=patience,
            clock=clock,
            has_sockets=has_sockets,
        )

    async def open_session(self, *, ttl_ms: int | None = None, owner: str | None = None) -> AsyncSession:
        """Opens a session. End it, or use it in `async with`."""
        return AsyncSession(self._core, self._driver, await self._driver.run(self._core.open_session(ttl_ms, owner)))

    def session(self, *, ttl_ms: int | None = None, owner: str | None = None) -> AsyncTaking[AsyncSession]:
        """`async with locks.session() as session:` opens it, and ends it with the block."""
        return AsyncTaking(lambda: self.open_session(ttl_ms=ttl_ms, owner=owner))

    @property
    def defaults(self) -> Defaults:
        """The values that a call uses if it does not give its own."""
        return self._core.defaults

    def record(self, key: str) -> AsyncRecord:
        """A record of the service: compare-and-swap with a fence floor."""
        return AsyncRecord(self._core, key, self._driver)

    async def once(self, key: str, work: Callable[[AsyncLock], Any], **options: Unpack[OnceOptions]) -> Once:
        """Does a job once across all processes: for its key, or in each window of `every_ms`."""
        driver = self._driver
        return await driver.run(run_once(self._core, key, options, lambda hold: work(AsyncLock(hold, driver))))

    def elect(
        self, name: str, on_elected: Callable[[AsyncTerm], Any], **options: Unpack[ElectOptions]
    ) -> AsyncElection:
        """Becomes a candidate for leadership. `on_elected` runs in a task of its own while this candidate leads."""

        def work(epoch: int, ended: Any, is_leader: Callable[[], bool]) -> Any:
            term = AsyncTerm(epoch, is_leader)
            term.over = asyncio.Event()
            ended.listen(term.over.set)
            return on_elected(term)

        return AsyncElection(Candidate(self._core, name, options, work), self._driver)

    async def adopt(self, lease: Mapping[str, Any], **options: Unpack[LeaseOptions]) -> AsyncLock:
        """Goes on with a lease that another process detached, or that was granted to a parked waiter."""
        return AsyncLock(
            await self._driver.run(self._core.adopt(lease["lock"], lease["leaseId"], options)), self._driver
        )

    async def inspect(self, name: str) -> LockView:
        """The holders and the queue of a lock."""
        return await self._driver.run(self._core.inspect(name))

    async def check_fence(self, name: str, fence: int) -> FenceCheck:
        """Says whether a fence holds now. For people and dashboards: it may be stale when it arrives."""
        return await self._driver.run(self._core.check_fence(name, fence))

    async def revoke(self, name: str, *, fence: int, reason: str) -> None:
        """Ends the lease of that fence against its holder's will."""
        await self._driver.run(self._core.revoke(name, fence, reason))

    async def list(self, *, prefix: str | None = None, state: str | None = None) -> AsyncIterator[LockSummary]:
        """All locks of the namespace by name, over all pages."""
        cursor, more = None, True
        while more:
            locks, cursor = await self._driver.run(self._core.list_page(prefix, state, cursor))
            for one in locks:
                yield one
            more = cursor is not None

    async def history(self, name: str) -> AsyncIterator[LockEvent]:
        """The past events of a lock, newest first, over all pages. They are kept for seven days."""
        cursor, more = None, True
        while more:
            events, cursor = await self._driver.run(self._core.history_page(name, cursor))
            for one in events:
                yield one
            more = cursor is not None

    async def health(self) -> Health:
        """Raises `UnavailableError` if the service does not work."""
        return await self._driver.run(self._core.health())

    async def close(self) -> None:
        """Ends all waits, and releases everything that is held."""
        await self._driver.run(self._core.close())
        await self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncHoldfast {self._core.namespace}>"
