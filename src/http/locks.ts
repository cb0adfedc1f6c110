/** The lock operations turn requests into calls of use cases, and outcomes into answers. They contain no rules. */

import * as z from 'zod';
import { resourceName } from '../contract/fields.ts';
import { lockLimits, sessionLimits } from '../contract/limits.ts';
import type { lockOperations } from '../contract/locks.ts';
import type { FenceCheck, GrantBody, LockSummary, LockView, ReleaseBody, WaitingBody } from '../contract/views.ts';
import type { Facts, LostReason, Place } from '../lock/commands.ts';
import type { Holder, LockKey, LockState } from '../lock/state.ts';
import {
  detailHolders,
  endsAt,
  limitInForce,
  longestWaitMs,
  presentWaiters,
  remainingMs,
  retryAfterMs,
  shownLimit,
  shownPermits,
  standingHolders,
  viewHolders,
  viewQueue,
  waitedMs,
} from '../lock/view.ts';
import { historyView } from '../notify/change-events.ts';
import { depthOf } from '../queue/pages.ts';
import { type Acquired, acquire } from '../service/acquire.ts';
import type { Answered } from '../service/apply.ts';
import type { LockContext } from '../service/context.ts';
import { release, renew, revoke } from '../service/lease.ts';
import { historyPage, inspect, list } from '../service/look.ts';
import { acquireOnSocket } from '../service/sockets.ts';
import { publicSessionId } from '../session/public-id.ts';
import { cursorPattern } from '../store/history-rules.ts';
import { toIso } from '../time/clock.ts';
import { defined } from '../tools/collections.ts';
import type { Handlers } from './operations.ts';
import { invalidField, Problem } from './problems.ts';
import { anonymous, type Reply, readCursor, writeCursor } from './request.ts';
import { sessionLost } from './sessions.ts';

/** Enough to see the state of a lock. The depth says how many waiters there are in all. */
const queueShownMax = 100;

/**
 * A new lease is in no queue yet. If a caller says that its lease is new, a polling caller is believed: if a late copy
 * of its request joins a second page, nobody polls for that place, and it is dropped. A parked waiter would be present
 * there until its deadline, so the service looks for its lease first.
 */
const placeGiven = ({ place, notify }: { readonly place?: Place | undefined; readonly notify?: unknown }) =>
  place === 'new' && notify !== undefined ? undefined : place;

type OnLock = { readonly parameters: { readonly ns: string; readonly name: string } };

const lockKey = ({ parameters: { ns, name } }: OnLock): LockKey => ({ namespace: ns, name });

const ok = <Body>(body: Body): Reply => ({ status: 200, body });

export const lockHandlers: Handlers<keyof typeof lockOperations> = {
  async acquireLock({ locks, sockets }, input) {
    const key = lockKey(input);
    const asked = withinMaxima(locks, input.body);
    const leaseId = asked.leaseId ?? locks.newLeaseId();
    const place = asked.leaseId === undefined ? ('new' as const) : placeGiven(asked);
    const claim = { ...asked, leaseId, place, ...ownerAsked(asked, input.caller) };
    const { notify } = claim;
    if (notify?.type !== 'websocket')
      return replyToAcquire(key, leaseId, await acquire(locks, key, claim, input.signal));
    const parked = sockets && (await acquireOnSocket(locks, sockets.store, key, { ...claim, notify }, input.caller));
    if (parked !== undefined) return replyToAcquire(key, leaseId, parked);
    throw new Problem('forbidden', 'notify.connectionId is not an open connection of this namespace and this caller.');
  },

  async renewLock({ locks }, input) {
    const key = lockKey(input);
    const { answer, state, facts } = await renew(locks, key, renewalWithin(locks, input.body));
    if (answer.kind === 'granted') return ok(grantBody(key, input.body.leaseId, answer.holder, { state, facts }));
    throw leaseLost(answer);
  },

  async releaseLock({ locks }, input) {
    const { answer } = await release(locks, lockKey(input), input.body);
    if (answer.kind !== 'released') throw leaseLost(answer, { released: false });
    const { reason, isExpired } = answer;
    const body: ReleaseBody = { released: reason !== 'already_released', reason };
    return ok<ReleaseBody>(isExpired === true ? { ...body, expired: true } : body);
  },

  async revokeLock({ locks }, input) {
    const { fence, reason } = input.body;
    // An authenticated caller can't revoke in somebody else's name.
    const by = input.caller === anonymous ? (input.body.by ?? anonymous) : input.caller;
    const { answer } = await revoke(locks, lockKey(input), { fence, reason, by });
    if (answer.kind === 'revoked') return { ...ok({ revoked: true }), logged: { fence, reason, by } };
    throw leaseLost(answer);
  },

  async inspectLock({ locks }, input) {
    const key = lockKey(input);
    const { state, facts } = await inspect(locks, key);
    const queue = viewQueue(state, facts, publicSessionId);
    return ok<LockView>({
      ...shown(key.name, state, facts),
      queue: queue.slice(0, queueShownMax),
      queueDepth: queue.length,
    });
  },

  async checkFence({ locks }, input) {
    const { state, facts } = await inspect(locks, lockKey(input));
    const holds = (holder: Holder): boolean =>
      holder.fence === input.query.fence && (remainingMs(holder, facts) ?? 1) > 0;
    return ok<FenceCheck>({ valid: state.holders.some(holds), fence: state.fence, state: stateName(state, facts) });
  },

  async listLocks({ locks }, { parameters, query: { cursor, ...page } }) {
    const after = cursor === undefined ? undefined : readCursor(cursor, resourceName);
    const listed = await list(locks, parameters.ns, { ...page, after });
    return ok({
      locks: listed.locks.map(
        ({ name, state, facts }): LockSummary => ({
          ...shown(name, state, facts),
          queueDepth: presentWaiters(state, facts).length,
          longestWaitMs: longestWaitMs(state, facts),
        }),
      ),
      ...(listed.after === undefined ? {} : { cursor: writeCursor(listed.after) }),
    });
  },

  async lockHistory({ locks, history }, input) {
    const { limit, cursor } = input.query;
    const before = cursor === undefined ? undefined : readCursor(cursor, historyPlace);
    const page = await historyPage({ locks, history }, lockKey(input), { limit, before });
    return ok({
      events: page.events.map(historyView),
      ...(page.before === undefined ? {} : { cursor: writeCursor(page.before) }),
    });
  },
};

/** A position in a history. */
const historyPlace = z.string().regex(cursorPattern, 'must be a cursor from an earlier page');

const stateName = (state: LockState, facts: Facts): 'held' | 'free' =>
  standingHolders(state, facts).length > 0 ? 'held' : 'free';

const shown = (lock: string, state: LockState, facts: Facts) => ({
  lock,
  state: stateName(state, facts),
  fence: state.fence,
  limit: limitInForce(state, facts),
  holders: detailHolders(state, facts, publicSessionId),
});

function replyToAcquire(key: LockKey, leaseId: string, acquired: Acquired): Reply {
  const { answer, state, facts } = acquired;
  if (answer.kind === 'granted') return ok(grantBody(key, leaseId, answer.holder, { state, facts }));
  if (answer.kind === 'waiting') return { status: 202, body: waitingBody(key.name, leaseId, acquired) };
  throw refusalOf(key.name, acquired);
}

/** The caller is still in the queue. A polling waiter should ask again at once. A parked waiter gets a delivery. */
export function waitingBody(lock: string, leaseId: string, { answer, state, facts, etaMs }: Acquired): WaitingBody {
  if (answer.kind !== 'waiting') throw new Error(`Expected a waiter, but got ${answer.kind}.`);
  return {
    status: 'waiting',
    lock,
    leaseId,
    position: answer.position,
    queueDepth: Math.max(answer.position, depthOf(state, facts)),
    ...defined({ place: answer.place }),
    holders: viewHolders(state, facts),
    etaMs,
    waitRemainingMs: Math.max(0, answer.waiter.deadlineAt - facts.now),
    retryAfterMs: 0,
  };
}

export function refusalOf(lock: string, { answer, state, facts }: Answered): Problem {
  const queueDepth = depthOf(state, facts);
  const holders = viewHolders(state, facts);
  switch (answer.kind) {
    case 'held': {
      const owners = holders.map(({ owner }) => owner).join(', ');
      const detail = holders.length === 0 ? `${lock} is kept for its waiters.` : `${lock} is held by ${owners}.`;
      return new Problem('lock-held', detail, { holders, queueDepth, retryAfterMs: retryAfterMs(state, facts) });
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
      return new Problem('queue-full', `${queueDepth} waiters are in the queue of ${lock}, which is the maximum.`, {
        retryAfterMs: retryAfterMs(state, facts),
      });
    case 'too-many-waits':
      return new Problem('queue-full', `The session waits for ${sessionLimits.waitsMax} locks, which is the maximum.`, {
        retryAfterMs: retryAfterMs(state, facts),
      });
    case 'deadlock':
      return new Problem(
        'deadlock',
        `Waiting for ${lock} would never end, because sessions wait for each other. This waiter queued last, so it is refused.`,
        { cycle: JSON.parse(answer.cycle) as unknown },
      );
    case 'lease-of-another':
      return new Problem(
        'lease-lost',
        'Another task token or callback has this leaseId. Each of them needs a leaseId of its own.',
        { reason: 'not_owner' },
      );
    case 'lost':
      return answer.reason === 'session_lost' ? sessionLost() : leaseLost(answer);
    default:
      return leaseLost(answer);
  }
}

export function grantBody(
  key: LockKey,
  leaseId: string,
  holder: Holder,
  { state, facts }: Pick<Answered, 'state' | 'facts'>,
): GrantBody {
  const { mode, sessionId, metadata } = holder;
  const end = endsAt(holder, facts);
  return {
    status: 'granted',
    lock: key.name,
    leaseId,
    fence: holder.fence,
    limit: shownLimit(state.limit, [holder]),
    permits: shownPermits(holder.permits),
    ...(holder.leaseMs === null ? {} : { leaseMs: holder.leaseMs }),
    remainingMs: remainingMs(holder, facts),
    expiresAt: end === null ? null : toIso(end),
    waitedMs: waitedMs(holder, holder.acquiredAt),
    ...defined({ mode, sessionId, metadata }),
  };
}

const lostDetails: Record<LostReason, string> = {
  expired: 'The lease expired before this request.',
  released: 'The lease was released before this request.',
  revoked: 'The lease was revoked before this request.',
  session_lost: 'The session of this lease has ended.',
  not_owner: 'This lease does not hold the lock, and is not among the leases that the lock remembers.',
};

function leaseLost(answer: Answered['answer'], more: Record<string, unknown> = {}): Problem {
  const { reason, revocation } = answer.kind === 'lost' ? answer : { reason: 'not_owner' as const };
  if (revocation === undefined) return new Problem('lease-lost', lostDetails[reason], { reason, ...more });
  const { by = 'an operator', reason: why } = revocation;
  const detail = `The lease was revoked by ${by}${why === undefined ? '.' : `: ${JSON.stringify(why)}.`}`;
  const told = defined({ revokedBy: revocation.by, revokedReason: why });
  return new Problem('lease-lost', detail, { reason, ...told, ...more });
}

/** The owner of a claim. If its caller named none, the service may know a better one than the caller's own name. */
export const ownerAsked = ({ owner }: { readonly owner?: string | undefined }, caller: string) => ({
  owner: owner ?? caller,
  isOwnerDefault: owner === undefined,
});

interface Asked {
  readonly leaseMs?: number | undefined;
  readonly waitMs?: number | undefined;
  readonly sessionId?: string | undefined;
  readonly notify?: unknown;
}

/**
 * Checks a request against the maxima of this deployment. Without a given lease, the lease is the default or the
 * maximum, whichever is shorter.
 */
export function withinMaxima<T extends Asked>(context: LockContext, asked: T): T {
  const { leaseMsMax = lockLimits.leaseMsMax, waitMsMax = lockLimits.waitMsMax } = context;
  refuseAbove('leaseMs', asked.leaseMs, leaseMsMax);
  // A parked wait of any length costs the same, so only polling callers are limited.
  if (asked.notify === undefined) refuseAbove('waitMs', asked.waitMs, waitMsMax);
  if (asked.leaseMs !== undefined || asked.sessionId !== undefined || leaseMsMax >= lockLimits.leaseMsDefault)
    return asked;
  return { ...asked, leaseMs: leaseMsMax };
}

/** A renewal without a given time uses the time of the original grant, which was allowed then. */
export function renewalWithin<T extends Asked>({ leaseMsMax = lockLimits.leaseMsMax }: LockContext, asked: T): T {
  refuseAbove('leaseMs', asked.leaseMs, leaseMsMax);
  return asked;
}

function refuseAbove(field: string, value: number | undefined, max: number): void {
  if (value === undefined || value <= max) return;
  throw invalidField(field, `must be at most ${max} in this deployment, got ${value}`);
}
