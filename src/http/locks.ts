/** The lock operations: requests into use cases, outcomes into answers. They decide nothing. */
import type { Facts } from '../lock/commands.ts';
import { shownLimit, shownPermits } from '../lock/permits.ts';
import type { Holder, LockState } from '../lock/state.ts';
import {
  detailHolders,
  endsAt,
  limitInForce,
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
import { Problem } from './problems.ts';
import type { Reply, Request } from './request.ts';
import { acquireBody, checkQuery, listQuery, releaseBody, renewBody, revokeBody } from './schemas.ts';

const lockKey = (request: Request): LockKey => ({ namespace: request.namespace, name: request.name() });

const ok = (body: unknown): Reply => ({ status: 200, body });

export async function acquireLock(context: LockContext, request: Request): Promise<Reply> {
  const key = lockKey(request);
  const asked = request.body(acquireBody);
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
  const { answer, state, facts } = await renew(context, key, request.body(renewBody));
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
  const queue = viewQueue(state, facts);
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
      holders: viewHolders(state, facts),
      queueDepth: presentWaiters(state, facts).length,
    })),
    ...(listed.after === undefined ? {} : { cursor: writeCursor(listed.after) }),
  });
}

const stateName = (state: LockState, facts: Facts): 'held' | 'free' =>
  standingHolders(state, facts).length > 0 ? 'held' : 'free';

function replyToAcquire(key: LockKey, leaseId: string, { answer, state, facts, etaMs }: Acquired): Reply {
  const queueDepth = presentWaiters(state, facts).length;
  switch (answer.kind) {
    case 'granted':
      return ok(grantBody(key, answer.holder, state, facts));
    case 'waiting': {
      const { waiter, position } = answer;
      const waitRemainingMs = Math.max(0, waiter.deadlineAt - facts.now);
      const holders = viewHolders(state, facts);
      // A polling waiter is expected back at once; a parked one will be told.
      const body = {
        status: 'waiting',
        lock: key.name,
        leaseId,
        position,
        queueDepth,
        holders,
        etaMs,
        waitRemainingMs,
        retryAfterMs: 0,
      };
      return { status: 202, body };
    }
    case 'held': {
      const holders = viewHolders(state, facts);
      const by = holders.length === 0 ? 'those who wait for it' : holders.map(({ owner }) => owner).join(', ');
      throw new Problem('lock-held', `${key.name} is held by ${by}.`, {
        holders,
        queueDepth,
        retryAfterMs: retryAfterMs(state, facts),
      });
    }
    case 'wait-timeout':
      throw new Problem('wait-timeout', `${key.name} was not granted within ${answer.waitedMs} ms.`, {
        holders: viewHolders(state, facts),
        queueDepth,
        waitedMs: answer.waitedMs,
      });
    case 'limit-mismatch': {
      const limit = limitInForce(state, facts);
      throw new Problem('limit-mismatch', `${key.name} is in use with a limit of ${limit}.`, { limit });
    }
    case 'queue-full':
      throw new Problem('queue-full', `${queueDepth} are waiting for ${key.name}, which is the most that may.`, {
        retryAfterMs: retryAfterMs(state, facts),
      });
    default:
      throw leaseLost(answer);
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
