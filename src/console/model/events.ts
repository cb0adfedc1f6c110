/** The events of locks that the page knows. */
import type { LockEvent } from '../../client/index.ts';

export type EventType = LockEvent['type'];

/** An event with its instant as a number, and with the name of its lock. */
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

/** The name of an event in text, such as `session lost`. */
export const eventTitle = (type: string): string => type.replace('-', ' ');

/** The words after the owner's name in a sentence, as in "worker-7 got the lock". */
export const eventWords: Readonly<Record<EventType, string>> = {
  granted: 'got the lock',
  queued: 'joined the queue',
  released: 'released it',
  expired: 'ran out of time',
  revoked: 'was revoked',
  'session-lost': 'lost its session',
  'wait-cancelled': 'left the queue',
  'wait-timeout': 'waited too long',
};

/** An event may come twice, and the history contains events that were already seen live. The same event has the same key. */
export const keyOf = ({ lock, at, type, fence, owner }: Happening): string =>
  `${lock}\n${at}\n${type}\n${fence ?? ''}\n${owner}`;

/** At one instant, endings come first, then grants, then arrivals. One write makes them in this order. */
const rankOf = (type: EventType): number => (isEnding(type) ? 0 : isBrokenWait(type) ? 1 : type === 'granted' ? 2 : 3);

/** Below 0 if `one` comes first. */
const compare = (one: Happening, other: Happening): number =>
  one.at - other.at || rankOf(one.type) - rankOf(other.type);

/**
 * Both lists in order, without repetitions, and at most `max` of the newest. If two waiters of one owner join in the same
 * millisecond, they count as one event. The page then shows one line less.
 */
export function merged(known: readonly Happening[], more: readonly Happening[], max: number): readonly Happening[] {
  const since = Math.min(...more.map(({ at }) => at));
  const keys = new Set(known.filter(({ at }) => at >= since).map(keyOf));
  const fresh = more.filter((event) => keys.size < keys.add(keyOf(event)).size);
  return fresh.length ? [...known, ...fresh].sort(compare).slice(-max) : known;
}
