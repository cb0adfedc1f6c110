/**
 * The promises about deliveries, events and history. A parked waiter gets the delivery of its grant, once unless something failed in
 * between, and never a wrong one. Events and history have no gaps, no repeats, and the order in which things happened.
 */
import { eventsBetween, type LockEvent } from '../../src/lock/events.ts';
import type { Holder, Notify } from '../../src/lock/state.ts';
import { eventsInPage } from '../../src/queue/page-events.ts';
import type { SessionState } from '../../src/session/state.ts';
import type { HistoryEvent } from '../../src/store/history.ts';
import type { Cause } from './cause.ts';
import type { LockPromises } from './lock-promises.ts';
import type { LockWrite } from './table.ts';
import { renewalsMs } from './traffic.ts';
import type { Verdicts } from './verdicts.ts';

/** Without faults: a late change, a batch before it, and a few slow calls. */
const toldMsMax = 5_000;

/** One event as it must appear on the bus and in the history. */
interface Expected {
  readonly type: string;
  readonly fence: number;
  readonly owner: string;
  readonly at: number;
  givenUp: boolean;
}

/** A parked waiter that was granted. */
interface Due {
  readonly name: string;
  readonly holder: Holder;
  readonly address: string;
  readonly grantedAt: number;
  /** The hosts that delivered it, besides the notifiers. */
  readonly tellers: Set<string>;
  /** The earliest end that its lease has had: a renewal by a clock that is behind may make it earlier. */
  endsAt: number;
  deliveries: number;
  notedAt: number | undefined;
  givenUp: boolean;
}

/** What one change means to others. */
export interface Meaning {
  readonly name: string;
  readonly events: readonly Expected[];
  readonly dues: readonly Due[];
  /** Tasks that must learn of the end of their wait. */
  readonly tokens: readonly string[];
}

export interface Delivery {
  readonly lock: string;
  readonly fence: number;
  readonly owner?: string;
  readonly leaseId?: string;
  readonly remainingMs: number;
}

interface NotifierPromisesParts {
  readonly verdicts: Verdicts;
  readonly locks: LockPromises;
  readonly session: (sessionId: string) => SessionState | undefined;
  readonly now: () => number;
  /** How far a clock may be ahead. For that clock a lease may already be over. */
  readonly aheadMsMax: number;
  readonly isTaskOpen: (token: string) => boolean;
}

/** Lambda's ids of callbacks have no dash. */
export const addressOfCallback = (id: string): string => id.replaceAll('/', '-');

export function addressOf(notify: Notify): string {
  switch (notify.type) {
    case 'event':
      return notify.ref;
    case 'websocket':
      return notify.connectionId;
    case 'task-token':
      return notify.token;
    case 'durable-callback':
      return addressOfCallback(notify.id);
  }
}

/** Leases, sessions, task tokens and connections: all that only its owner may see. */
const secrets = /\b[LSTC][-/][a-z]+\d+[-/]\d+\b/;

export class NotifierPromises {
  readonly #parts: NotifierPromisesParts;
  readonly #dues = new Map<string, Due>();
  readonly #undelivered = new Set<Due>();
  /** Addresses at which nobody was found. */
  readonly #gone = new Set<string>();
  #expected = new Map<string, Expected[]>();
  #published = new Map<string, Map<string, string>>();

  constructor(parts: NotifierPromisesParts) {
    this.#parts = parts;
  }

  written(write: LockWrite): Meaning {
    const { name, before, after } = write;
    const events = eventsOf(write)
      .filter(({ type }) => type !== 'renewed')
      .map(({ type, fence, owner, at }) => ({ type, fence, owner, at, givenUp: false }));
    this.#expected.set(name, [...(this.#expected.get(name) ?? []), ...events]);
    const dues = after.holders.flatMap((holder) => {
      const { notify, queuedAt, fence } = holder;
      const isNew = before.holders.every((other) => other.fence !== fence);
      return notify === undefined || queuedAt === undefined || !isNew ? [] : [this.#due(name, holder, notify)];
    });
    for (const { fence, expiresAt } of after.holders) {
      const due = this.#dues.get(`${name} ${fence}`);
      if (due !== undefined && expiresAt !== null) due.endsAt = Math.min(due.endsAt, expiresAt);
    }
    const staying = new Set([...after.queue, ...after.holders].map(({ leaseId }) => leaseId));
    const left = before.queue.filter(({ leaseId }) => !staying.has(leaseId));
    const tokens = [...left, ...dues.map(({ holder }) => holder)].flatMap(({ notify }) =>
      notify?.type === 'task-token' || notify?.type === 'durable-callback' ? [addressOf(notify)] : [],
    );
    return { name, events, dues, tokens };
  }

  #due(name: string, holder: Holder, notify: Notify): Due {
    const due: Due = {
      name,
      holder,
      address: addressOf(notify),
      grantedAt: this.#parts.now(),
      tellers: new Set(),
      endsAt: holder.expiresAt ?? Number.POSITIVE_INFINITY,
      deliveries: 0,
      notedAt: undefined,
      givenUp: false,
    };
    this.#dues.set(`${name} ${holder.fence}`, due);
    this.#undelivered.add(due);
    this.#parts.verdicts.count('parked waiters granted');
    return due;
  }

  /** The notifier is done with a change: every waiter that it concerns has its delivery, or can't be reached. */
  taken({ name, dues, tokens, events }: Meaning): void {
    for (const due of dues) {
      if (due.deliveries === 0 && !this.#gone.has(due.address) && this.#stood(due))
        this.#breach('told', `${name}: ${due.holder.leaseId} was granted ${due.holder.fence} and never told`, due);
    }
    const waiting = tokens.find((token) => this.#parts.isTaskOpen(token));
    if (waiting !== undefined) this.#breach('told', `${name}: the task ${waiting} waits for ever`, dues);
    for (const event of events) event.givenUp = false;
  }

  givenUp({ dues, events }: Meaning): void {
    for (const event of events) event.givenUp = true;
    for (const due of dues) {
      due.givenUp = true;
      this.#undelivered.delete(due);
    }
  }

  /** A grant was delivered, by a notifier that began its work at the time of the cause. */
  told(cause: Cause, address: string, { lock, fence, owner, leaseId, remainingMs }: Delivery): void {
    const { verdicts, locks } = this.#parts;
    verdicts.count('deliveries');
    const due = this.#dues.get(`${lock} ${fence}`);
    const evidence = { due, told: { address, lock, fence, owner, leaseId, remainingMs } };
    if (due === undefined || due.address !== address || (leaseId ?? due.holder.leaseId) !== due.holder.leaseId) {
      this.#breach('told', `${address} was told of a grant of ${lock} that it never got`, evidence);
      return;
    }
    if (cause.operation !== 'notify') {
      verdicts.count('told by the writer of the grant');
      due.tellers.add(cause.host);
      // The writer delivers, and perhaps one more that wrote to the lock in the same millisecond. Processes that only read it must not: they may be many.
      if (due.tellers.size > 2)
        this.#breach('one wake-up', `${address} was told by ${[...due.tellers].join()}`, evidence);
    }
    const tenancy = locks.tenancyOf(lock, due.holder.leaseId);
    if (tenancy === undefined || (tenancy.until !== undefined && tenancy.until < cause.arrivedAt))
      this.#breach('told', `${address} was told of a grant of ${lock} that was over before`, evidence);
    if (owner !== undefined && owner !== due.holder.owner)
      this.#breach('told', `${address} was told of a grant of somebody else`, evidence);
    // An owner that learned of its grant from an answer may have renewed it before the delivery.
    const leaseMs = Math.max(due.holder.leaseMs ?? Number.POSITIVE_INFINITY, ...renewalsMs);
    // The time of a session may be over, and others still get nothing: it is in its grace. Then 0 is true.
    const leastMs = due.holder.expiresAt === null ? 0 : 1;
    if (remainingMs < leastMs || remainingMs > leaseMs + this.#parts.aheadMsMax)
      this.#breach('told', `${address} was told of ${remainingMs} ms that it does not have`, evidence);
    // A writer knows a grant of its own by its time. By a slower clock, an earlier grant may have the same one.
    if (cause.operation === 'notify' && due.notedAt !== undefined && due.notedAt < cause.arrivedAt)
      this.#breach('told once', `${address} was told again although it was noted before`, evidence);
    due.deliveries += 1;
    if (due.deliveries > 1) verdicts.count('deliveries repeated');
    this.#undelivered.delete(due);
  }

  /** The notifier wrote that it made a delivery. */
  noted(name: string, fence: number): void {
    const due = this.#dues.get(`${name} ${fence}`);
    if (due === undefined || due.deliveries === 0)
      this.#breach('told', `${name}: ${fence} was noted as told, and nobody was`, due);
    if (due !== undefined) due.notedAt ??= this.#parts.now();
  }

  foundGone(address: string): void {
    this.#parts.verdicts.count('nobody found to be told');
    this.#gone.add(address);
  }

  /**
   * A waiter that can't be reached blocks the waiters behind it. A waiter whose delivery was noted keeps the grant, even if its address
   * is gone later. If the delivery was made but not noted, nobody in the service knows of it.
   */
  mayGiveUp(name: string, { fence }: Holder): boolean {
    const due = this.#dues.get(`${name} ${fence}`);
    return due !== undefined && due.notedAt === undefined && this.#gone.has(due.address);
  }

  /** A bus has many readers, so its texts must have no secrets. */
  checkPublic(text: string): void {
    if (secrets.test(text)) this.#breach('secrets', `an event names a secret: ${text}`, text);
  }

  /** Each copy of an event must be the same event. */
  published(lock: string, id: string, text: string): void {
    this.#parts.verdicts.count('events published');
    const known = this.#published.get(lock) ?? new Map<string, string>();
    this.#published.set(lock, known);
    if ((known.get(id) ?? text) !== text)
      this.#breach('events', `${id} is two different events`, { one: known.get(id), other: text });
    if (known.has(id)) this.#parts.verdicts.count('events repeated');
    known.set(id, text);
  }

  /** Without faults, no granted waiter is long without its delivery. */
  checkSoon(calmSince: number): void {
    for (const due of this.#undelivered) {
      const waitedMs = this.#parts.now() - Math.max(due.grantedAt, calmSince);
      if (!this.#stood(due) || this.#gone.has(due.address)) this.#undelivered.delete(due);
      else if (waitedMs > toldMsMax)
        this.#breach('told', `${due.name}: ${due.holder.leaseId} was not told within ${toldMsMax} ms`, due);
    }
  }

  /** After all changes were handled, the bus and the history show the same events, and these are what happened. */
  async checkStories(historyOf: (lock: string) => Promise<readonly HistoryEvent[]>): Promise<void> {
    for (const [lock, expected] of this.#expected) {
      const published = [...(this.#published.get(lock) ?? [])]
        .sort(([one], [other]) => (one < other ? -1 : 1))
        .map(([, text]) => JSON.parse(text) as HistoryEvent);
      this.#compare(`the bus on ${lock}`, expected, published);
      this.#compare(`the history of ${lock}`, asKept(expected), [...(await historyOf(lock))].reverse());
      this.#parts.verdicts.count('events told in order', expected.length);
    }
    this.#expected = new Map();
    this.#published = new Map();
  }

  /**
   * Events that were given up may be missing. No other event may be missing, none may come twice, and those of one lock's holders
   * must be in order. Waiters also join and leave in pages, and the stream shows changes of pages separately from those of the lock.
   */
  #compare(what: string, expected: readonly Expected[], told: readonly HistoryEvent[]): void {
    const isOfQueue = ({ type }: { readonly type: string }) => type === 'queued' || type.startsWith('wait-');
    const sorted = <T extends Pick<Expected, 'type' | 'fence' | 'owner' | 'at'>>(events: readonly T[]) =>
      events.toSorted((one, other) => (orderOf(one) < orderOf(other) ? -1 : 1));
    this.#compareInOrder(
      what,
      expected.filter((event) => !isOfQueue(event)),
      told.filter((event) => !isOfQueue(event)),
    );
    this.#compareInOrder(what, sorted(expected.filter(isOfQueue)), sorted(told.filter(isOfQueue)));
  }

  #compareInOrder(what: string, expected: readonly Expected[], told: readonly HistoryEvent[]): void {
    const remaining = told.values();
    let next = remaining.next();
    for (const event of expected) {
      if (!next.done && isSame(event, next.value)) next = remaining.next();
      else if (!event.givenUp) {
        this.#breach('events', `${what} misses ${event.type} of ${event.fence}`, { event, instead: next.value });
        return;
      }
    }
    if (!next.done) this.#breach('events', `${what} tells of what never was`, next.value);
  }

  /** True if the grant was valid by every clock, and nobody has changed it. */
  #stood({ name, holder, endsAt }: Due): boolean {
    const { locks, session, now, aheadMsMax } = this.#parts;
    // A lease under a session ends with it, and a lease that has ended is not delivered.
    const bound = holder.sessionId === undefined ? undefined : session(holder.sessionId);
    const lastsUntil =
      holder.sessionId === undefined ? endsAt : bound?.ended === undefined ? (bound?.expiresAt ?? 0) : 0;
    return now() + aheadMsMax < lastsUntil && locks.tenancyOf(name, holder.leaseId)?.until === undefined;
  }

  #breach(promise: string, what: string, evidence: unknown): void {
    this.#parts.verdicts.breach(promise, what, evidence);
  }
}

/** The history keeps a grant together with the end of its hold. If the end was given up, the grant is missing too. */
function asKept(expected: readonly Expected[]): readonly Expected[] {
  const isEnd = ({ type }: Expected) => type !== 'granted' && type !== 'queued' && !type.startsWith('wait-');
  const endings = new Map(expected.filter(isEnd).map((event) => [event.fence, event]));
  return expected.map((event) =>
    event.type === 'granted' && endings.get(event.fence)?.givenUp === true ? { ...event, givenUp: true } : event,
  );
}

/**
 * The events of a write, from the lock with its whole queue: pages must not change them. One exception: if a late copy of a request
 * put its lease into a page once more, each item has its own event, because it can't know of the other.
 */
function eventsOf({ before, after, stored, isDoubled }: LockWrite): readonly LockEvent[] {
  if (stored.kind === 'lock')
    return isDoubled ? eventsBetween(stored.before, stored.after) : eventsBetween(before, after);
  if (isDoubled) return eventsInPage(stored.before, stored.after, after.changedAt);
  // If a waiter gave its place in a page back, the page remembers it, and not the lock.
  const hadLeft = new Set(stored.before.left.map(({ leaseId, queuedAt }) => `${leaseId} ${queuedAt}`));
  const isReleased = stored.after.left.some(
    ({ leaseId, queuedAt, how }) => how === 'released' && !hadLeft.has(`${leaseId} ${queuedAt}`),
  );
  return eventsBetween(before, after).map((event) => ({
    ...event,
    type: event.type === 'wait-timeout' && isReleased ? 'wait-cancelled' : event.type,
    // A page has the lock's fence from the time when its last waiter joined.
    fence: stored.after.fence,
  }));
}

/** The bus writes instants as text, the history as numbers. */
const isSame = ({ type, fence, owner, at }: Expected, told: HistoryEvent): boolean =>
  type === told.type && fence === told.fence && owner === told.owner && at === new Date(told.at).getTime();

/** Instants come as numbers or as ISO 8601. */
const orderOf = ({
  type,
  fence,
  owner,
  at,
}: {
  type: string;
  fence: number;
  owner: string;
  at: number | string;
}): string => `${new Date(at).toISOString()} ${fence} ${type} ${owner}`;
