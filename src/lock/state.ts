/**
 * The state of a lock, and what can be counted in it: permits, and bytes.
 *
 * There is one way to count permits for every kind of lock. A semaphore has N permits. A read-write lock is a semaphore
 * whose writers take every permit. A mutex is a read-write lock that has only writers, so a plain acquire and a reader
 * of the same name exclude each other.
 */
import { type EpochMs, epochMs } from '../time/clock.ts';

export interface LockKey {
  readonly namespace: string;
  readonly name: string;
}

/** One string for a lock. A namespace has no slash, so no two locks have the same string. */
export const lockIdOf = ({ namespace, name }: LockKey): string => `${namespace}/${name}`;

/** More than the largest semaphore (1,000), so a read-write lock and a semaphore never have the same limit. It is also the most readers at once. */
export const everyPermit = 1_024;

export type LockMode = 'exclusive' | 'shared';

/** How a parked waiter wants to be notified of its grant. */
export type Notify = (
  | { readonly type: 'event'; readonly ref: string }
  | { readonly type: 'task-token'; readonly token: string; readonly always?: boolean | undefined }
  | { readonly type: 'durable-callback'; readonly id: string; readonly always?: boolean | undefined }
  | { readonly type: 'websocket'; readonly connectionId: string }
) & {
  /** The owner's own leaseId. Its delivery carries it, unless it goes to a bus, which has many readers. */
  readonly leaseId?: string;
};

/** True if a grant without waiting is delivered too. A task or a callback continues only after its delivery. */
export const isAlwaysNotified = ({ notify }: { readonly notify?: Notify }): boolean =>
  notify !== undefined && 'always' in notify && notify.always === true;

export const isParkedOn = (claim: { readonly notify?: Notify } | undefined, connectionId: string): boolean =>
  claim?.notify?.type === 'websocket' && claim.notify.connectionId === connectionId;

/** Where a delivery goes. */
function addressOf(notify: Notify | undefined): string | undefined {
  switch (notify?.type) {
    case 'event':
      return notify.ref;
    case 'task-token':
      return notify.token;
    case 'durable-callback':
      return notify.id;
    case 'websocket':
      return notify.connectionId;
    default:
      return undefined;
  }
}

export const isSameNotify = (one: Notify | undefined, other: Notify | undefined): boolean =>
  one?.type === other?.type &&
  addressOf(one) === addressOf(other) &&
  isAlwaysNotified({ ...(one && { notify: one }) }) === isAlwaysNotified({ ...(other && { notify: other }) });

/** The token or the callback of a claim. Each belongs to one task, and is answered once. */
export function taskOf(notify: Notify | undefined): string | undefined {
  if (notify?.type === 'task-token') return notify.token;
  return notify?.type === 'durable-callback' ? notify.id : undefined;
}

/** True if two tasks chose the same lease id. Only one of them could be answered. */
export function isOfAnotherTask(known: Notify | undefined, asked: Notify | undefined): boolean {
  const [one, other] = [taskOf(known), taskOf(asked)];
  return one !== undefined && other !== undefined && one !== other;
}

/** What a waiter asks for, and what a holder has. */
export interface Claim {
  /**
   * The name of the lease: a digest of the owner's leaseId (see \`leaseNameOf\`). The leaseId itself gives the right to renew and
   * release, so neither the rules nor the table know it.
   */
  readonly leaseId: string;
  readonly owner: string;
  readonly permits: number;
  /** Null if the lease ends with a session instead. */
  readonly leaseMs: number | null;
  readonly sessionId?: string;
  readonly lockDelayMs?: number;
  readonly mode?: LockMode;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly notify?: Notify;
}

export interface Holder extends Claim {
  readonly fence: number;
  readonly acquiredAt: EpochMs;
  /** Null if the lease ends with a session. Then it is valid as long as the session is. */
  readonly expiresAt: EpochMs | null;
  /** Set if the holder waited in the queue. */
  readonly queuedAt?: EpochMs;
}

export interface Waiter extends Claim {
  readonly queuedAt: EpochMs;
  /** The end of its wait. */
  readonly deadlineAt: EpochMs;
  /** Until when it counts as present if it sends nothing more. Never after its deadline. */
  readonly presentUntil: EpochMs;
}

/** How a lease ends. */
export const leaseEndings = ['released', 'expired', 'revoked', 'session-lost'] as const;

/** `released`: the owner gave back its lease, or its place in the queue. `deadlock`: the wait was ended to resolve a deadlock. */
export const endedHows = [...leaseEndings, 'deadlock'] as const;
export type EndedHow = (typeof endedHows)[number];

export interface Ended {
  readonly leaseId: string;
  readonly how: EndedHow;
  /** Set if an operator revoked the lease by its fence. */
  readonly fence?: number;
  readonly reason?: string;
  /** Who revoked the lease. Missing if an earlier release wrote the ending. */
  readonly by?: string;
}

/** What the former holder is told about the end of its lease. */
export interface Revocation {
  readonly by?: string;
  readonly reason?: string;
}

/** Only the fields that are known. */
export const revocationOf = ({ by, reason }: { by?: string | undefined; reason?: string | undefined }): Revocation => ({
  ...(reason === undefined ? {} : { reason }),
  ...(by === undefined ? {} : { by }),
});

/** Where the waiters behind the front are. Only `src/queue` knows what these numbers mean. Somebody is there if `first <= last`. */
export interface Behind {
  readonly first: number;
  readonly last: number;
}

/** What most holders of a part have in common. The item has it once. No rule depends on it. */
export interface Usual {
  readonly owner: string;
  readonly permits: number;
  readonly leaseMs: number | null;
}

/** Everything that decides about one lock. It is one item of limited size, so every step is one atomic write. */
export interface LockState {
  /** Every write raises it, and a compare-and-swap compares it. Zero if the lock was never written. */
  readonly rev: number;
  /** The highest fence granted. It only rises. Zero if the lock was never granted. */
  readonly fence: number;
  readonly limit: number;
  /** In the order of their fences. */
  readonly holders: readonly Holder[];
  /** The front of the queue, in the order of arrival. */
  readonly queue: readonly Waiter[];
  /** The waiters behind the front. Missing if there never were any. */
  readonly behind?: Behind;
  readonly usual?: Usual;
  /** How the latest leases ended, newest first. They show that a request is a repetition or a late duplicate. */
  readonly ended: readonly Ended[];
  /** When this state was written, by the writer's clock. */
  readonly changedAt: EpochMs;
}

/** Whether somebody waits behind the front. */
export const hasMore = <State extends Pick<LockState, 'behind'>>(
  state: State,
): state is State & { readonly behind: Behind } =>
  state.behind !== undefined && state.behind.first <= state.behind.last;

export const unusedLock: LockState = {
  rev: 0,
  fence: 0,
  limit: everyPermit,
  holders: [],
  queue: [],
  ended: [],
  changedAt: epochMs(0),
};

export const permitsHeld = (state: LockState): number => state.holders.reduce((sum, holder) => sum + holder.permits, 0);

export interface Demand {
  readonly limit: number;
  readonly permits: number;
}

/** Turns what a caller asked for into permits of a semaphore. `limit: 1` is a mutex. */
export function demandOf(asked: {
  limit?: number | undefined;
  permits?: number | undefined;
  mode?: LockMode | undefined;
}): Demand {
  if (asked.mode === 'shared') return { limit: everyPermit, permits: 1 };
  const limit = asked.limit ?? 1;
  if (limit === 1) return { limit: everyPermit, permits: everyPermit };
  return { limit, permits: asked.permits ?? 1 };
}

const utf8 = new TextEncoder();

/** About what a holder's session, metadata and address add to the item, beyond what every holder has. */
export function extrasWeight({ sessionId, metadata, notify }: Claim): number {
  const extras = [sessionId, metadata, notify].filter((extra) => extra !== undefined);
  return extras.reduce<number>((sum, extra) => sum + utf8.encode(JSON.stringify(extra)).length, 0);
}

/** The weight of all holders that have only some of the permits. A holder of all permits is alone and always fits. */
export const holdersWeight = ({ holders, limit }: Pick<LockState, 'holders' | 'limit'>): number =>
  holders.reduce((sum, holder) => sum + (holder.permits < limit ? extrasWeight(holder) : 0), 0);
