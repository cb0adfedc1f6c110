/**
 * The promises about a lock, checked at every write to the table. Nothing here uses the rules of the service: each change between
 * two stored states must be one that its cause may make.
 */
import { brokenInvariant } from '../../src/lock/invariants.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { type Holder, type LockState, permitsHeld, type Waiter } from '../../src/lock/state.ts';
import type { SessionState } from '../../src/session/state.ts';
import type { Cause } from './cause.ts';
import type { LockWrite } from './table.ts';
import type { Verdicts } from './verdicts.ts';

/** A valid lease, by true time. */
export interface Tenancy {
  readonly fence: number;
  readonly from: number;
  until: number | undefined;
}

interface LockBook {
  /** Over all items that the lock has had: it may be deleted and created again. */
  highestFence: number;
  endings: number;
  /** For each lease, the number of its ending. */
  readonly endedAt: Map<string, number>;
  readonly tenancies: Map<string, Tenancy>;
  readonly revoked: Set<number>;
  /** For each lease in the queue, since when it has its first place. */
  readonly placedAt: Map<string, number>;
}

const releasing = new Set(['releaseLock', 'releaseLocks', 'acquireLock', 'acquireLocks']);
const renewing = new Set(['renewLock', 'renewLocks', 'acquireLocks']);
const acquiring = new Set(['acquireLock', 'acquireLocks']);

export class LockPromises {
  readonly #verdicts: Verdicts;
  readonly #now: () => number;
  readonly #session: (sessionId: string) => SessionState | undefined;
  /** How far any host's clock may be ahead of the true time. */
  readonly #aheadMsMax: number;
  /** True if a grant may be given up because its delivery found nobody. */
  readonly #mayGiveUp: (name: string, holder: Holder) => boolean;
  readonly #books = new Map<string, LockBook>();

  constructor(parts: {
    verdicts: Verdicts;
    now: () => number;
    session: (sessionId: string) => SessionState | undefined;
    aheadMsMax: number;
    mayGiveUp: (name: string, holder: Holder) => boolean;
  }) {
    this.#mayGiveUp = parts.mayGiveUp;
    this.#verdicts = parts.verdicts;
    this.#now = parts.now;
    this.#session = parts.session;
    this.#aheadMsMax = parts.aheadMsMax;
  }

  tenancyOf(name: string, leaseId: string): Tenancy | undefined {
    return this.#books.get(name)?.tenancies.get(leaseId);
  }

  /** Its holder learns of it late, by its next renewal. */
  isRevoked(name: string, fence: number): boolean {
    return this.#books.get(name)?.revoked.has(fence) ?? false;
  }

  written(write: LockWrite): void {
    const { name, before, after } = write;
    const book = this.#bookOf(name);
    book.endings += endingsBetween(before, after);
    this.#checkShape(write);
    for (const holder of before.holders) this.#checkHolder(write, holder);
    for (const [place, waiter] of before.queue.entries()) this.#checkWaiter(write, waiter, place);
    for (const holder of after.holders) if (!has(before.holders, holder)) this.#checkGrant(write, holder);
    for (const [place, waiter] of after.queue.entries())
      if (!has(before.queue, waiter)) this.#checkArrival(write, waiter, place);
    this.#checkOnePlace(write);
    for (const { leaseId } of before.queue) if (!has(after.queue, { leaseId })) book.placedAt.delete(leaseId);
    for (const { leaseId } of after.queue) if (!book.placedAt.has(leaseId)) book.placedAt.set(leaseId, this.#now());
    book.highestFence = Math.max(book.highestFence, after.fence);
    if (after.changedAt > this.#now() + this.#aheadMsMax) {
      this.#breach('time', write, `decided at ${after.changedAt}, which no clock of a host shows yet`);
    }
  }

  #checkShape(write: LockWrite): void {
    const { before, after } = write;
    if (permitsHeld(after) > after.limit)
      this.#breach('exclusion', write, `${permitsHeld(after)} permits of ${after.limit} are held`);
    if (write.stored.kind === 'lock' && after.rev !== before.rev + 1)
      this.#breach('revision', write, `revision ${before.rev} became ${after.rev}`);
    if (after.fence < before.fence)
      this.#breach('fences rise', write, `the fence fell from ${before.fence} to ${after.fence}`);
    const broken = brokenInvariant(after);
    if (broken !== undefined) this.#breach('invariants', write, broken);
    const leases = [...after.holders, ...after.queue].map(({ leaseId }) => leaseId);
    if (new Set(leases).size < leases.length) this.#breach('one effect', write, 'a lease stands in two places');
  }

  /**
   * A waiter that has a place does not get another one by asking again. A copy of its first request may still do that: it
   * calls its lease new, and so no page is searched. So may a write that was sent before the waiter had its place.
   */
  #checkOnePlace(write: LockWrite): void {
    const { name, stored, cause } = write;
    if (stored.kind !== 'page' || cause.operation !== 'acquireLock' || cause.isNew) return;
    for (const { leaseId } of stored.after.waiters) {
      const placedAt = this.#bookOf(name).placedAt.get(leaseId);
      if (has(stored.before.waiters, { leaseId }) || placedAt === undefined || placedAt >= cause.arrivedAt) continue;
      this.#breach('first in, first out', write, `${leaseId} asked again and got a second place`);
    }
  }

  /** A holder in the state before: it still holds, and only it may renew, or it was ended by a caller that may do so. */
  #checkHolder(write: LockWrite, holder: Holder): void {
    const { name, after, cause } = write;
    const later = after.holders.find(({ leaseId }) => leaseId === holder.leaseId);
    if (later === undefined) {
      const revoked = cause.operation === 'revokeLock' && cause.fence === holder.fence;
      const released = releasing.has(cause.operation) && cause.leaseId === holder.leaseId;
      const givenUp =
        holder.notify?.type !== 'websocket' && cause.operation === 'notify' && this.#mayGiveUp(name, holder);
      if (!revoked && !released && !givenUp && !this.#isOver(holder, after))
        this.#breach(
          'only the holder',
          write,
          `${holder.leaseId} lost its lease to ${cause.operation} of ${cause.leaseId}`,
        );
      if (revoked) this.#bookOf(name).revoked.add(holder.fence);
      this.#end(write, holder.leaseId);
      return;
    }
    if (later.fence !== holder.fence || later.permits !== holder.permits || later.owner !== holder.owner)
      this.#breach('only the holder', write, `the grant of ${holder.leaseId} was changed`);
    if (later.expiresAt === holder.expiresAt || this.#isCutShort(write, holder, later)) return;
    // A request for several locks renews the ones that it already has by a timer.
    const { operation, leaseId } = cause.setBy ?? cause;
    const byItself = renewing.has(operation) && leaseId === holder.leaseId;
    if (!byItself)
      this.#breach('only the holder', write, `${holder.leaseId} was renewed by ${cause.operation} of ${cause.leaseId}`);
    if (holder.expiresAt === null || holder.expiresAt <= after.changedAt)
      this.#breach('only the holder', write, `${holder.leaseId} was renewed after its end`);
  }

  /** A client that lost its connection and can't be reached may be absent as long as any waiter. */
  #isCutShort({ name, after }: LockWrite, holder: Holder, later: Holder): boolean {
    const isShorter = (later.expiresAt ?? Number.POSITIVE_INFINITY) < (holder.expiresAt ?? Number.POSITIVE_INFINITY);
    const isEnough = (later.expiresAt ?? 0) >= after.changedAt + lockLimits.waiterAbsenceMs;
    return holder.notify?.type === 'websocket' && isShorter && isEnough && this.#mayGiveUp(name, holder);
  }

  /** True if its end, grace and lock delay have passed at the time of the decision, or if its session is over in the table. */
  #isOver(holder: Holder, { changedAt }: LockState): boolean {
    const delayMs = holder.lockDelayMs ?? 0;
    if (holder.expiresAt !== null) return holder.expiresAt + lockLimits.graceMs + delayMs <= changedAt;
    const session = holder.sessionId === undefined ? undefined : this.#session(holder.sessionId);
    if (session?.ended === undefined) return false;
    return session.ended.how === 'ended' || session.ended.at + delayMs <= changedAt;
  }

  /** A waiter in the state before: it still waits in its place, was granted, left, or was absent. */
  #checkWaiter(write: LockWrite, waiter: Waiter, place: number): void {
    const { before, after, cause } = write;
    if (has(after.holders, waiter)) return;
    const later = after.queue.findIndex(({ leaseId }) => leaseId === waiter.leaseId);
    const isThere = this.#isThere(waiter, after);
    if (later < 0) {
      const byItself = releasing.has(cause.operation) && cause.leaseId === waiter.leaseId;
      const gaveWay = after.ended.some(({ leaseId, how }) => leaseId === waiter.leaseId && how === 'deadlock');
      if (isThere && !byItself && !gaveWay)
        this.#breach('first in, first out', write, `${waiter.leaseId} was dropped while it was there`);
      // If a place in a page was given back, the page remembers it, and not the lock.
      if (byItself && cause.operation === 'releaseLock' && write.stored.kind === 'lock')
        this.#note(write, waiter.leaseId);
      return;
    }
    const kept = after.queue[later] as Waiter;
    // A waiter that was absent too long and asks again is a new one. Or a late copy of a request had put the lease into the
    // queue twice, its owner gave one place up, and the other is still there.
    if (kept.queuedAt !== waiter.queuedAt && (!isThere || cause.leaseId === waiter.leaseId)) return;
    const aheadNow = after.queue.slice(0, later).filter((other) => has(before.queue, other));
    const overtaken = aheadNow.find(
      (other) => before.queue.findIndex(({ leaseId }) => leaseId === other.leaseId) > place,
    );
    if (overtaken !== undefined)
      this.#breach('first in, first out', write, `${overtaken.leaseId} passed ${waiter.leaseId}`);
    if (kept.deadlineAt !== waiter.deadlineAt)
      this.#breach('bounded', write, `the deadline of ${waiter.leaseId} moved while it waited`);
  }

  #checkGrant(write: LockWrite, holder: Holder): void {
    const { name, before, after, cause } = write;
    const book = this.#bookOf(name);
    if (holder.fence <= book.highestFence)
      this.#breach('fences rise', write, `${holder.leaseId} got fence ${holder.fence} after ${book.highestFence}`);
    const others = after.holders.filter((other) => other !== holder && other.fence === holder.fence);
    if (others.length > 0) this.#breach('fences rise', write, `fence ${holder.fence} was given twice`);
    const place = before.queue.findIndex(({ leaseId }) => leaseId === holder.leaseId);
    const own = acquiring.has(cause.operation) && cause.leaseId === holder.leaseId;
    if (place < 0 && !own) this.#breach('only the holder', write, `${holder.leaseId} was granted without asking`);
    this.#checkOrder(write, holder, place);
    if (this.#endedLately(name, holder.leaseId))
      this.#breach('one effect', write, `${holder.leaseId} took the lock again after its lease had ended`);
    // For the caller of the request, the session is read at the same time. If it is over, the answer says that the grant is not valid.
    // Several locks are released side by side, so one of them may learn it while the other is being decided.
    const isKnown = holder.sessionId !== undefined && cause.knownDead.has(holder.sessionId) && cause.names.length < 2;
    if (!own && isKnown)
      this.#breach('sessions', write, `${holder.leaseId} was granted under a session known to be over`);
    const many = cause.operation === 'acquireLocks' && cause.waitMs === 0 && own;
    if (many) this.#checkTogether(write);
    book.tenancies.set(holder.leaseId, { fence: holder.fence, from: this.#now(), until: undefined });
  }

  #checkOrder(write: LockWrite, holder: Holder, place: number): void {
    const { before, after } = write;
    // A waiter that was absent too long and asks again is granted as a new caller if nobody waits.
    const waiter = holder.queuedAt === undefined ? undefined : before.queue[place];
    if (waiter !== undefined && waiter.presentUntil <= after.changedAt)
      this.#breach('first in, first out', write, `${holder.leaseId} was granted though it was gone`);
    const ahead = waiter === undefined ? before.queue : before.queue.slice(0, place);
    const passed = ahead.find((other) => has(after.queue, other) && this.#isThere(other, after));
    if (passed !== undefined)
      this.#breach('first in, first out', write, `${holder.leaseId} was served before ${passed.leaseId}`);
  }

  /** A try for several locks takes all missing ones in one step. */
  #checkTogether(write: LockWrite): void {
    const { cause, together } = write;
    const lacking = cause.names.filter((name) => {
      const tenancy = this.tenancyOf(name, cause.leaseId ?? '');
      return tenancy === undefined || (tenancy.until !== undefined && tenancy.until < this.#now());
    });
    const alone = lacking.find((name) => !together.includes(name));
    if (alone !== undefined)
      this.#breach('all or nothing', write, `${cause.leaseId} took ${write.name} without ${alone}`);
  }

  #checkArrival(write: LockWrite, waiter: Waiter, place: number): void {
    const { name, before, after, cause } = write;
    if (!acquiring.has(cause.operation) || cause.leaseId !== waiter.leaseId)
      this.#breach('only the holder', write, `${waiter.leaseId} was queued without asking`);
    if (after.queue.slice(place + 1).some((other) => has(before.queue, other)))
      this.#breach('first in, first out', write, `${waiter.leaseId} did not queue at the end`);
    if (waiter.presentUntil > waiter.deadlineAt)
      this.#breach('bounded', write, `${waiter.leaseId} counts as there beyond its deadline`);
    const early = cause.operation === 'acquireLocks' ? cause.names.filter((other) => other < name) : [];
    if (early.some((other) => this.tenancyOf(other, waiter.leaseId) === undefined))
      this.#breach('one order', write, `${waiter.leaseId} queues before it has been granted ${early.join()}`);
    if (this.#endedLately(name, waiter.leaseId) || hasLeftPage(write, waiter))
      this.#breach('one effect', write, `${waiter.leaseId} queued again after it had ended`);
  }

  #isThere(waiter: Waiter, { changedAt }: LockState): boolean {
    const session = waiter.sessionId === undefined ? undefined : this.#session(waiter.sessionId);
    return waiter.presentUntil > changedAt && session?.ended === undefined;
  }

  #end(write: LockWrite, leaseId: string): void {
    const tenancy = this.#bookOf(write.name).tenancies.get(leaseId);
    if (tenancy !== undefined) tenancy.until = this.#now();
    this.#note(write, leaseId);
  }

  /** If several leases end in one write, each is forgotten at its own time. */
  #note({ name, after }: LockWrite, leaseId: string): void {
    const book = this.#bookOf(name);
    const later = after.ended.findIndex((ended) => ended.leaseId === leaseId);
    book.endedAt.set(leaseId, book.endings - Math.max(0, later));
  }

  /** A lock promises to remember its eight latest endings. */
  #endedLately(name: string, leaseId: string): boolean {
    const { endedAt, endings } = this.#bookOf(name);
    const at = endedAt.get(leaseId);
    return at !== undefined && endings - at < lockLimits.endedRemembered;
  }

  /** A lock whose item was deleted has forgotten its endings, but not its fence. */
  collected(name: string): void {
    const book = this.#bookOf(name);
    book.endedAt.clear();
    for (const tenancy of book.tenancies.values()) tenancy.until ??= this.#now();
  }

  #bookOf(name: string): LockBook {
    const book = this.#books.get(name) ?? {
      highestFence: 0,
      endings: 0,
      endedAt: new Map(),
      tenancies: new Map(),
      revoked: new Set(),
      placedAt: new Map(),
    };
    this.#books.set(name, book);
    return book;
  }

  #breach(promise: string, { name, cause, before, after }: LockWrite, what: string): void {
    this.#verdicts.breach(promise, `${name}: ${what}`, { cause: shown(cause), before, after });
  }
}

/** A page does not take a lease again that was released in it. */
const hasLeftPage = ({ stored }: LockWrite, { leaseId }: Waiter): boolean =>
  stored.kind === 'page' && stored.before.left.some((left) => left.leaseId === leaseId && left.how === 'released');

/** How many endings were added between two states. After eight more, a lock may forget an ending. */
function endingsBetween(before: LockState, after: LockState): number {
  const [latest] = before.ended;
  const known = after.ended.findIndex(({ leaseId, how }) => leaseId === latest?.leaseId && how === latest.how);
  return known < 0 ? after.ended.length : known;
}

const has = (entries: readonly { readonly leaseId: string }[], { leaseId }: { readonly leaseId: string }): boolean =>
  entries.some((entry) => entry.leaseId === leaseId);

const shown = ({ knownDead, setBy, gone: _, ...cause }: Cause) => ({
  ...cause,
  setBy: setBy?.operation,
  knownDead: [...knownDead],
});
