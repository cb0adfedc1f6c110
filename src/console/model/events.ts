/** What happened to locks, as the page knows it. */
import type { LockEvent } from '../../client/index.ts';

export type EventType = LockEvent['type'];

/** An event with its instant as a number, and the lock that it is about. */
export interface Happening extends Omit<LockEvent, 'at'> {
  readonly lock: string;
  readonly at: number;
}

export const happeningOf = ({ at, ...event }: LockEvent, lock: string): Happening => ({
  ...event,
  lock,
  at: Date.parse(at),
});

/** How a lease ended. */
export const endings = ['released', 'expired', 'revoked', 'session-lost'] as const;
export type Ending = (typeof endings)[number];
/** How a wait ended without a grant. */
export const brokenWaits = ['wait-cancelled', 'wait-timeout'] as const;

export const eventTypes: readonly EventType[] = ['granted', 'queued', ...endings, ...brokenWaits];

export const isEnding = (type: EventType): type is Ending => (endings as readonly string[]).includes(type);
export const isBrokenWait = (type: EventType): boolean => (brokenWaits as readonly string[]).includes(type);

/** The words for each, as a sentence about its owner: "worker-7 got the lock". */
export const eventWords: Readonly<Record<EventType, string>> = {
  granted: 'got the lock',
  queued: 'joined the queue',
  released: 'released it',
  expired: 'ran out of time',
  revoked: 'was revoked',
  'session-lost': 'lost its session',
  'wait-cancelled': 'left the queue',
  'wait-timeout': 'waited in vain',
};

/** Delivery is at least once, and history repeats what was seen live: the same event has the same key. */
export const keyOf = ({ lock, at, type, fence, owner }: Happening): string =>
  `${lock}\n${at}\n${type}\n${fence ?? ''}\n${owner}`;

/** Of one instant, endings come first, then grants, then arrivals: as one write does them. */
const rankOf = (type: EventType): number => (isEnding(type) ? 0 : isBrokenWait(type) ? 1 : type === 'granted' ? 2 : 3);

/** Below 0 where the one comes first. */
const compare = (one: Happening, other: Happening): number =>
  one.at - other.at || rankOf(one.type) - rankOf(other.type);

/**
 * Both, in order, none twice, and at most so many of the newest. Two waiters of one owner that queue in the same millisecond are the
 * same event here: only the picture of the past loses by that, and by one line.
 */
export function merged(known: readonly Happening[], more: readonly Happening[], max: number): Happening[] {
  const seen = new Set(known.map(keyOf));
  const fresh = more.filter((event) => {
    const key = keyOf(event);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
  if (fresh.length === 0) return known as Happening[];
  const last = known.at(-1);
  const inOrder = fresh.every((event, index) => compare(fresh[index - 1] ?? last ?? event, event) <= 0);
  const all = [...known, ...fresh];
  if (!inOrder) all.sort(compare);
  return all.length > max ? all.slice(all.length - max) : all;
}

/** The same for one event that has just happened, without going through all that is known: it belongs near the end. */
export function withOne(known: readonly Happening[], event: Happening, max: number): readonly Happening[] {
  const key = keyOf(event);
  let place = known.length;
  for (let at = known.length - 1; at >= 0; at--) {
    const other = known[at] as Happening;
    if (other.at < event.at) break;
    if (keyOf(other) === key) return known;
    if (compare(event, other) < 0) place = at;
  }
  const all = known.toSpliced(place, 0, event);
  return all.length > max ? all.slice(all.length - max) : all;
}
