"""Holdfast: locks with leases, fences and FIFO waiting.

from holdfast import Holdfast

locks = Holdfast("http://127.0.0.1:4100", "payments")
with locks.lock("wallet:42") as lock:
    db.execute(sql, lock.fence)
"""

from .async_client import AsyncElection, AsyncHoldfast, AsyncLock, AsyncLocks, AsyncRecord, AsyncSession, AsyncTerm
from .auth import Auth, bearer, sigv4
from .client import Election, Holdfast, Lock, Locks, Record, Session, Term
from .core import Defaults, Release
from .errors import (
    BlockedError,
    ClosedError,
    DeadlockError,
    HoldfastError,
    InvalidRequestError,
    LeaseLostError,
    LimitMismatchError,
    LockHeldError,
    OnceFailedError,
    QueueFullError,
    SessionLostError,
    StaleFenceError,
    ThrottledError,
    TooManyRetriesError,
    UnavailableError,
    VersionMismatchError,
    WaitCancelledError,
    WaitTimeoutError,
)
from .flow import Signal
from .handlers import locked, once
from .jobs import Once
from .waiting import Patience

__all__ = [
    "AsyncElection",
    "AsyncHoldfast",
    "AsyncLock",
    "AsyncLocks",
    "AsyncRecord",
    "AsyncSession",
    "AsyncTerm",
    "Auth",
    "BlockedError",
    "ClosedError",
    "DeadlockError",
    "Defaults",
    "Election",
    "Holdfast",
    "HoldfastError",
    "InvalidRequestError",
    "LeaseLostError",
    "LimitMismatchError",
    "Lock",
    "LockHeldError",
    "Locks",
    "Once",
    "OnceFailedError",
    "Patience",
    "QueueFullError",
    "Record",
    "Release",
    "Session",
    "SessionLostError",
    "Signal",
    "StaleFenceError",
    "Term",
    "ThrottledError",
    "TooManyRetriesError",
    "UnavailableError",
    "VersionMismatchError",
    "WaitCancelledError",
    "WaitTimeoutError",
    "bearer",
    "locked",
    "once",
    "sigv4",
]
