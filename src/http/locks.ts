/** The lock operations: requests into use cases, outcomes into answers. They decide nothing. */
import type { Facts } from '../lock/commands.ts';
import { shownLimit, shownPermits } from '../lock/permits.ts';
import type { Holder, LockState } from '../lock/state.ts';
import {
  detailHolders,
  endsAt,
  limitInForce,
  longestWaitMs,
  presentWaiters,
  remainingMs,
  retryAfterMs,
  standingHolders,
  viewHolders,
  viewQueue,
} from '../lock/view.ts';
import { type Acquired, acquire } from '../service/acquire.ts';
import type { Applied } from '../service/apply.ts';
import type { LockContext } from '../service/context.ts';
import { inspect, release, renew, revoke } from '../service/lease.ts';
import { list } from '../service/list.ts';
import { publicSessionId } from '../session/public-id.ts';
import type { LockKey } from '../store/lock-store.ts';
import { toIso } from '../time/clock.ts';
import { readCursor, writeCursor } from './cursor.ts';
import { renewalWithin, withinMaxima } from './maxima.ts';
import { Problem } from './problems.ts';
import type { Reply, Request } from './request.ts';
import { acquireBody, checkQuery, listQuery, releaseBody, renewBody, revokeBody } from './schemas.ts';
import { sessionLost } from './sessions.ts';

const lockKey = (request: Request): LockKey => ({ namespace: request.namespace, name: request.name() });

const ok = (body: unknown): Reply => ({ status: 200, body });

export async function acquireLock(context: LockContext, request: Request): Promise<Reply> {
  const key = lockKey(request);
  const asked = withinMaxima(context, request.body(acquireBody));
  const leaseId = asked.leaseId ?? context.newLeaseId();
  const acquired = await acquire(
    context,
    key,
    { ...asked, leaseId, owner: asked.owner ?? request.caller },
    request.gone,
  );
  return replyToAcquire(key, leaseId, acquired);
}

export async function renewLock(context: LockContext, request: Request): Promise<Reply> {
  const key = lockKey(request);
  const { answer, state, facts } = await renew(context, key, renewalWithin(context, request.body(renewBody)));
  if (answer.kind === 'granted') return ok(grantBody(key, answer.holder, state, facts));
  throw leaseLost(answer);
}

export async function releaseLock(context: LockContext, request: Request): Promise<Reply> {
  const { answer } = await release(context, lockKey(request), request.body(releaseBody));
  if (answer.kind === 'released') return ok({ released: answer.reason !== 'already_released', reason: answer.reason });
  throw leaseLost(answer, { released: false });
}

export async function revokeLock(context: LockContext, request: Request): Promise<Reply> {
  const { answer } = await revoke(context, lockKey(request), request.body(revokeBody));
  if (answer.kind === 'revoked') return ok({ revoked: true });
  throw leaseLost(answer);
}

export async function inspectLock(context: LockContext, request: Request): Promise<Reply> {
  const key = lockKey(request);
  const { state, facts } = await inspect(context, key);
  const queue = viewQueue(state, facts, publicSessionId);
  return ok({
    lock: key.name,
    state: stateName(state, facts),
    fence: state.fence,
    limit: limitInForce(state, facts),
    holders: detailHolders(state, facts, publicSessionId),
    queue,
    queueDepth: queue.length,
  });
}

/** Whether a fence holds now. The answer may be stale when it arrives: what the lock protects must check the fence itself. */
export async function checkFence(context: LockContext, request: Request): Promise<Reply> {
  const { fence } = request.query(checkQuery);
  const { state, facts } = await inspect(context, lockKey(request));
  const valid = state.holders.some((holder) => holder.fence === fence && (remainingMs(holder, facts) ?? 1) > 0);
  return ok({ valid, fence: state.fence, state: stateName(state, facts) });
}

export async function listLocks(context: LockContext, request: Request): Promise<Reply> {
  const { namespace } = request;
  const { cursor, ...page } = request.query(listQuery);
  const listed = await list(context, namespace, {
    ...page,
    after: cursor === undefined ? undefined : readCursor(cursor),
  });
  return ok({
    locks: listed.locks.map(({ name, state, facts }) => ({
      lock: name,
      state: stateName(state, facts),
      fence: state.fence,
      limit: limitInForce(state, facts),
      holders: detailHolders(state, facts, publicSessionId),
      queueDepth: presentWaiters(state, facts).length,
      longestWaitMs: longestWaitMs(state, facts),
    })),
    ...(listed.after === undefined ? {} : { cursor: writeCursor(listed.after) }),
  });
}

const stateName = (state: LockState, facts: Facts): 'held' | 'free' =>
  standingHolders(state, facts).length > 0 ? 'held' : 'free';

function replyToAcquire(key: LockKey, leaseId: string, acquired: Acquired): Reply {
  const { answer, state, facts } = acquired;
  if (answer.kind === 'granted') return ok(grantBody(key, answer.holder, state, facts));
  if (answer.kind === 'waiting') return { status: 202, body: waitingBody(key.name, leaseId, acquired) };
  throw refusalOf(key.name, acquired);
}

/** Still queued. A polling waiter is expected back at once; a parked one will be told. */
export function waitingBody(lock: string, leaseId: string, { answer, state, facts, etaMs }: Acquired) {
  if (answer.kind !== 'waiting') throw new Error(`A waiter was expected, got ${answer.kind}.`);
  return {
    status: 'waiting',
    lock,
    leaseId,
    position: answer.position,
    queueDepth: presentWaiters(state, facts).length,
    holders: viewHolders(state, facts),
    etaMs,
    waitRemainingMs: Math.max(0, answer.waiter.deadlineAt - facts.now),
    retryAfterMs: 0,
  };
}

/** Why a lock was not granted. */
export function refusalOf(lock: string, { answer, state, facts }: Applied): Problem {
  const queueDepth = presentWaiters(state, facts).length;
  const holders = viewHolders(state, facts);
  switch (answer.kind) {
    case 'held': {
      const by = holders.length === 0 ? 'those who wait for it' : holders.map(({ owner }) => owner).join(', ');
      return new Problem('lock-held', `${lock} is held by ${by}.`, {
        holders,
        queueDepth,
        retryAfterMs: retryAfterMs(state, facts),
      });
    }
    case 'wait-timeout':
      return new Problem('wait-timeout', `${lock} was not granted within ${answer.waitedMs} ms.`, {
        holders,
        queueDepth,
        waitedMs: answer.waitedMs,
      });
    case 'limit-mismatch': {
      const limit = limitInForce(state, facts);
      return new Problem('limit-mismatch', `${lock} is in use with a limit of ${limit}.`, { limit });
    }
    case 'queue-full':
      return new Problem('queue-full', `${queueDepth} are waiting for ${lock}, which is the most that may.`, {
        retryAfterMs: retryAfterMs(state, facts),
      });
    case 'deadlock':
      return new Problem('deadlock', `Waiting for ${lock} would never end; this waiter queued last and gives way.`, {
        cycle: JSON.parse(answer.cycle) as unknown,
      });
    case 'lost':
      return answer.reason === 'session_lost' ? sessionLost() : leaseLost(answer);
    default:
      return leaseLost(answer);
  }
}

export function grantBody(key: LockKey, holder: Holder, state: LockState, facts: Facts): Record<string, unknown> {
  const end = endsAt(holder, facts);
  return {
    status: 'granted',
    lock: key.name,
    leaseId: holder.leaseId,
    fence: holder.fence,
    limit: shownLimit(state.limit, [holder]),
    permits: shownPermits(holder.permits),
    ...(holder.leaseMs === null ? {} : { leaseMs: holder.leaseMs }),
    remainingMs: remainingMs(holder, facts),
    expiresAt: end === null ? null : toIso(end),
    waitedMs: holder.queuedAt === undefined ? 0 : holder.acquiredAt - holder.queuedAt,
    ...(holder.mode === undefined ? {} : { mode: holder.mode }),
    ...(holder.sessionId === undefined ? {} : { sessionId: holder.sessionId }),
    ...(holder.metadata === undefined ? {} : { metadata: holder.metadata }),
  };
}

const lostDetails: Record<string, string> = {
  expired: 'The lease ran out before this request.',
  released: 'The lease was released before this request.',
  revoked: 'The lease was revoked before this request.',
  session_lost: 'The session that the lease hung on is over.',
  not_owner: 'The lock is not held by this lease, nor does it remember that lease.',
};

function leaseLost(answer: Applied['answer'], more: Record<string, unknown> = {}): Problem {
  const reason = answer.kind === 'lost' ? answer.reason : 'not_owner';
  return new Problem('lease-lost', lostDetails[reason] ?? reason, { reason, ...more });
}
