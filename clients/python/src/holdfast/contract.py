"""What the service promises: limits, routes, problem codes, bodies and answers.

Generated from the OpenAPI document by clients/python/generate.ts. Do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

LEASE_MS_MIN = 1_000
LEASE_MS_DEFAULT = 30_000
POLL_MS_MAX = 25_000
WAIT_MS_MAX = 900_000
EXPIRES_IN_MS_MIN = 1_000
EXPIRES_IN_MS_MAX = 31_536_000_000
NAMESPACE_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}$"
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@=+~-]{0,254}$"

LostReason = Literal["expired", "released", "revoked", "not_owner", "session_lost"]

# The status of each problem code.
PROBLEMS = {
    "invalid-request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not-found": 404,
    "method-not-allowed": 405,
    "lock-held": 409,
    "wait-timeout": 409,
    "lease-lost": 409,
    "limit-mismatch": 409,
    "deadlock": 409,
    "stale-fence": 409,
    "session-lost": 410,
    "version-mismatch": 412,
    "too-large": 413,
    "unsupported-media-type": 415,
    "precondition-required": 428,
    "queue-full": 429,
    "throttled": 429,
    "internal": 500,
    "unavailable": 503,
}

# Method and path of each operation.
ROUTES = {
    "health": ("GET", "/v1/health"),
    "openapi": ("GET", "/v1/openapi.json"),
    "listLocks": ("GET", "/v1/{ns}/locks"),
    "inspectLock": ("GET", "/v1/{ns}/locks/{name}"),
    "checkFence": ("GET", "/v1/{ns}/locks/{name}/check"),
    "lockHistory": ("GET", "/v1/{ns}/locks/{name}/history"),
    "acquireLock": ("POST", "/v1/{ns}/locks/{name}/acquire"),
    "renewLock": ("POST", "/v1/{ns}/locks/{name}/renew"),
    "releaseLock": ("POST", "/v1/{ns}/locks/{name}/release"),
    "revokeLock": ("POST", "/v1/{ns}/locks/{name}/revoke"),
    "acquireLocks": ("POST", "/v1/{ns}/multi-locks/acquire"),
    "renewLocks": ("POST", "/v1/{ns}/multi-locks/renew"),
    "releaseLocks": ("POST", "/v1/{ns}/multi-locks/release"),
    "createSession": ("POST", "/v1/{ns}/sessions"),
    "getSession": ("GET", "/v1/{ns}/sessions/{id}"),
    "endSession": ("DELETE", "/v1/{ns}/sessions/{id}"),
    "keepSessionAlive": ("POST", "/v1/{ns}/sessions/{id}/keepalive"),
    "getRecord": ("GET", "/v1/{ns}/records/{key}"),
    "putRecord": ("PUT", "/v1/{ns}/records/{key}"),
    "deleteRecord": ("DELETE", "/v1/{ns}/records/{key}"),
    "createTicket": ("POST", "/v1/{ns}/tickets"),
}


class AcquireLockBody(TypedDict, total=False):
    leaseMs: int | None
    waitMs: int | None
    pollMs: int | None
    leaseId: str | None
    owner: str | None
    limit: int | None
    permits: int | None
    mode: Literal["exclusive", "shared"] | None
    sessionId: str | None
    lockDelayMs: int | None
    tier: Literal["correctness", "efficiency"] | None
    notify: Any
    metadata: dict[str, str] | None
    place: Literal["new"] | int | None


class RenewLockBody(TypedDict, total=False):
    leaseId: str
    leaseMs: int | None


class ReleaseLockBody(TypedDict, total=False):
    leaseId: str


class RevokeLockBody(TypedDict, total=False):
    fence: int
    reason: str
    by: str | None


class AcquireLocksBody(TypedDict, total=False):
    locks: Any
    leaseMs: int | None
    waitMs: int | None
    leaseId: str | None
    owner: str | None
    sessionId: str | None


class RenewLocksBody(TypedDict, total=False):
    leaseId: str
    locks: list[str]
    leaseMs: int | None


class ReleaseLocksBody(TypedDict, total=False):
    leaseId: str
    locks: list[str]


class CreateSessionBody(TypedDict, total=False):
    ttlMs: int | None
    owner: str | None


class PutRecordBody(TypedDict, total=False):
    value: Any
    expiresInMs: int | None


@dataclass(frozen=True, slots=True)
class HolderView:
    owner: str
    fence: int
    remaining_ms: int | None

    @classmethod
    def read(cls, body: Any) -> HolderView:
        return cls(
            owner=body["owner"],
            fence=body["fence"],
            remaining_ms=body["remainingMs"],
        )


@dataclass(frozen=True, slots=True)
class HolderDetail:
    owner: str
    fence: int
    remaining_ms: int | None
    permits: int
    acquired_at: str
    session_id: str | None = field(repr=False, default=None)
    metadata: dict[str, str] | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> HolderDetail:
        return cls(
            owner=body["owner"],
            fence=body["fence"],
            remaining_ms=body["remainingMs"],
            permits=body["permits"],
            acquired_at=body["acquiredAt"],
            session_id=body.get("sessionId"),
            metadata=body.get("metadata"),
        )


@dataclass(frozen=True, slots=True)
class WaiterView:
    owner: str
    position: int
    waiting_ms: int
    permits: int
    session_id: str | None = field(repr=False, default=None)

    @classmethod
    def read(cls, body: Any) -> WaiterView:
        return cls(
            owner=body["owner"],
            position=body["position"],
            waiting_ms=body["waitingMs"],
            permits=body["permits"],
            session_id=body.get("sessionId"),
        )


@dataclass(frozen=True, slots=True)
class LockFence:
    lock: str
    fence: int

    @classmethod
    def read(cls, body: Any) -> LockFence:
        return cls(
            lock=body["lock"],
            fence=body["fence"],
        )


@dataclass(frozen=True, slots=True)
class ReleaseFailure:
    lock: str
    reason: str

    @classmethod
    def read(cls, body: Any) -> ReleaseFailure:
        return cls(
            lock=body["lock"],
            reason=body["reason"],
        )


@dataclass(frozen=True, slots=True)
class LockView:
    lock: str
    state: Literal["free", "held"]
    fence: int
    limit: int
    holders: list[HolderDetail]
    queue: list[WaiterView]
    queue_depth: int

    @classmethod
    def read(cls, body: Any) -> LockView:
        return cls(
            lock=body["lock"],
            state=body["state"],
            fence=body["fence"],
            limit=body["limit"],
            holders=[HolderDetail.read(one) for one in body["holders"]],
            queue=[WaiterView.read(one) for one in body["queue"]],
            queue_depth=body["queueDepth"],
        )


@dataclass(frozen=True, slots=True)
class LockSummary:
    lock: str
    state: Literal["free", "held"]
    fence: int
    limit: int
    holders: list[HolderDetail]
    queue_depth: int
    longest_wait_ms: int

    @classmethod
    def read(cls, body: Any) -> LockSummary:
        return cls(
            lock=body["lock"],
            state=body["state"],
            fence=body["fence"],
            limit=body["limit"],
            holders=[HolderDetail.read(one) for one in body["holders"]],
            queue_depth=body["queueDepth"],
            longest_wait_ms=body["longestWaitMs"],
        )


@dataclass(frozen=True, slots=True)
class LockEvent:
    at: str
    type: Literal["queued", "granted", "released", "expired", "revoked", "session-lost", "wait-cancelled", "wait-timeout"]
    fence: int
    owner: str
    held_ms: int | None = field(default=None)
    waited_ms: int | None = field(default=None)
    reason: str | None = field(default=None)
    by: str | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> LockEvent:
        return cls(
            at=body["at"],
            type=body["type"],
            fence=body["fence"],
            owner=body["owner"],
            held_ms=body.get("heldMs"),
            waited_ms=body.get("waitedMs"),
            reason=body.get("reason"),
            by=body.get("by"),
        )


@dataclass(frozen=True, slots=True)
class FenceCheck:
    valid: bool
    fence: int
    state: Literal["free", "held"]

    @classmethod
    def read(cls, body: Any) -> FenceCheck:
        return cls(
            valid=body["valid"],
            fence=body["fence"],
            state=body["state"],
        )


@dataclass(frozen=True, slots=True)
class Grant:
    status: Literal["granted"]
    lock: str
    lease_id: str = field(repr=False)
    fence: int
    limit: int
    permits: int
    remaining_ms: int | None
    expires_at: str | None
    waited_ms: int
    lease_ms: int | None = field(default=None)
    mode: Literal["exclusive", "shared"] | None = field(default=None)
    session_id: str | None = field(repr=False, default=None)
    metadata: dict[str, str] | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> Grant:
        return cls(
            status=body["status"],
            lock=body["lock"],
            lease_id=body["leaseId"],
            fence=body["fence"],
            limit=body["limit"],
            permits=body["permits"],
            remaining_ms=body["remainingMs"],
            expires_at=body["expiresAt"],
            waited_ms=body["waitedMs"],
            lease_ms=body.get("leaseMs"),
            mode=body.get("mode"),
            session_id=body.get("sessionId"),
            metadata=body.get("metadata"),
        )


@dataclass(frozen=True, slots=True)
class ManyGrant:
    status: Literal["granted"]
    lease_id: str = field(repr=False)
    remaining_ms: int | None
    expires_at: str | None
    waited_ms: int
    grants: list[LockFence]

    @classmethod
    def read(cls, body: Any) -> ManyGrant:
        return cls(
            status=body["status"],
            lease_id=body["leaseId"],
            remaining_ms=body["remainingMs"],
            expires_at=body["expiresAt"],
            waited_ms=body["waitedMs"],
            grants=[LockFence.read(one) for one in body["grants"]],
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    status: Literal["waiting"]
    lock: str
    lease_id: str = field(repr=False)
    position: int
    queue_depth: int
    holders: list[HolderView]
    eta_ms: int | None
    wait_remaining_ms: int
    retry_after_ms: int
    place: int | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> Waiting:
        return cls(
            status=body["status"],
            lock=body["lock"],
            lease_id=body["leaseId"],
            position=body["position"],
            queue_depth=body["queueDepth"],
            holders=[HolderView.read(one) for one in body["holders"]],
            eta_ms=body["etaMs"],
            wait_remaining_ms=body["waitRemainingMs"],
            retry_after_ms=body["retryAfterMs"],
            place=body.get("place"),
        )


@dataclass(frozen=True, slots=True)
class ManyWaiting:
    status: Literal["waiting"]
    lease_id: str = field(repr=False)
    position: int
    queue_depth: int
    holders: list[HolderView]
    eta_ms: int | None
    wait_remaining_ms: int
    retry_after_ms: int
    blocked_by: list[str]
    place: int | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> ManyWaiting:
        return cls(
            status=body["status"],
            lease_id=body["leaseId"],
            position=body["position"],
            queue_depth=body["queueDepth"],
            holders=[HolderView.read(one) for one in body["holders"]],
            eta_ms=body["etaMs"],
            wait_remaining_ms=body["waitRemainingMs"],
            retry_after_ms=body["retryAfterMs"],
            blocked_by=body["blockedBy"],
            place=body.get("place"),
        )


@dataclass(frozen=True, slots=True)
class Released:
    released: bool
    reason: Literal["ok", "cancelled", "already_released"]
    expired: Literal["true"] | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> Released:
        return cls(
            released=body["released"],
            reason=body["reason"],
            expired=body.get("expired"),
        )


@dataclass(frozen=True, slots=True)
class ManyReleased:
    released: list[str]
    failed: list[ReleaseFailure]
    expired: list[str] | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> ManyReleased:
        return cls(
            released=body["released"],
            failed=[ReleaseFailure.read(one) for one in body["failed"]],
            expired=body.get("expired"),
        )


@dataclass(frozen=True, slots=True)
class OpenSession:
    session_id: str = field(repr=False)
    ttl_ms: int
    remaining_ms: int
    expires_at: str

    @classmethod
    def read(cls, body: Any) -> OpenSession:
        return cls(
            session_id=body["sessionId"],
            ttl_ms=body["ttlMs"],
            remaining_ms=body["remainingMs"],
            expires_at=body["expiresAt"],
        )


@dataclass(frozen=True, slots=True)
class SessionView:
    session_id: str = field(repr=False)
    ttl_ms: int
    remaining_ms: int
    expires_at: str
    owner: str
    locks: list[LockFence]

    @classmethod
    def read(cls, body: Any) -> SessionView:
        return cls(
            session_id=body["sessionId"],
            ttl_ms=body["ttlMs"],
            remaining_ms=body["remainingMs"],
            expires_at=body["expiresAt"],
            owner=body["owner"],
            locks=[LockFence.read(one) for one in body["locks"]],
        )


@dataclass(frozen=True, slots=True)
class SessionEnd:
    ended: bool
    released: int | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> SessionEnd:
        return cls(
            ended=body["ended"],
            released=body.get("released"),
        )


@dataclass(frozen=True, slots=True)
class RecordWritten:
    key: str
    version: int
    fence: int | None
    updated_at: str
    expires_at: str | None = field(default=None)
    remaining_ms: int | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> RecordWritten:
        return cls(
            key=body["key"],
            version=body["version"],
            fence=body["fence"],
            updated_at=body["updatedAt"],
            expires_at=body.get("expiresAt"),
            remaining_ms=body.get("remainingMs"),
        )


@dataclass(frozen=True, slots=True)
class RecordView:
    key: str
    version: int
    fence: int | None
    updated_at: str
    value: Any
    expires_at: str | None = field(default=None)
    remaining_ms: int | None = field(default=None)

    @classmethod
    def read(cls, body: Any) -> RecordView:
        return cls(
            key=body["key"],
            version=body["version"],
            fence=body["fence"],
            updated_at=body["updatedAt"],
            value=body["value"],
            expires_at=body.get("expiresAt"),
            remaining_ms=body.get("remainingMs"),
        )


@dataclass(frozen=True, slots=True)
class Ticket:
    ticket: str = field(repr=False)
    url: str
    expires_in_ms: int

    @classmethod
    def read(cls, body: Any) -> Ticket:
        return cls(
            ticket=body["ticket"],
            url=body["url"],
            expires_in_ms=body["expiresInMs"],
        )


@dataclass(frozen=True, slots=True)
class Health:
    status: Literal["ok"]
    version: str
    engine: str

    @classmethod
    def read(cls, body: Any) -> Health:
        return cls(
            status=body["status"],
            version=body["version"],
            engine=body["engine"],
        )
