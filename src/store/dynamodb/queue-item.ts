/**
 * How the queue lies in a lock's item: the front as maps whose parts a hand-off can use in an expression; and the tail
 * as one short text each, because an item costs by its size and every write moves all of it. The front is never empty while the
 * tail is not. A waiter that leaves from the middle is struck out in place, so that nobody else's place moves; a swap tidies up.
 */
import type { Waiter } from '../../lock/state.ts';
import { queueWeight, weightOf } from '../../lock/weight.ts';
import { after, epochMs } from '../../time/clock.ts';
import { extrasOf, fromClaimItem, fromExtras, toClaimItem } from './claim-item.ts';
import { claimWords, lockWords, waiterWords } from './lock-words.ts';
import { asMap, asText, type Item, instant, integer, list, unreadable } from './reading.ts';

export interface QueueItem {
  readonly front: readonly Item[];
  readonly tail: readonly string[];
}

/** Hand-offs before the tail has to move up, which takes a swap. More of them would make every write dearer: a map costs several texts. */
export const frontLengthMax = 8;
/** What is left in the tail, and as the presence of one in the front, of a waiter that was struck out. */
export const struckText = '-';
export const struckUntil = 0;

export const toWaiterItem = (waiter: Waiter): Item => ({
  ...toClaimItem(waiter),
  [waiterWords.deadlineAt]: waiter.deadlineAt,
  [waiterWords.presentUntil]: waiter.aliveUntil,
  [waiterWords.bytes]: weightOf(waiter),
  [waiterWords.fenceStep]: 1,
});

const fromWaiterItem = (item: Item): Waiter => ({
  ...fromClaimItem(item),
  queuedAt: instant(item, claimWords.queuedAt),
  deadlineAt: instant(item, waiterWords.deadlineAt),
  aliveUntil: instant(item, waiterWords.presentUntil),
});

/** A waiter as the tail has it. Times count from the one at which it queued, which keeps them short. */
export function toText(waiter: Waiter): string {
  const { leaseId, owner, permits, leaseMs, queuedAt, deadlineAt, aliveUntil } = waiter;
  const extras = extrasOf(waiter);
  return JSON.stringify([
    leaseId,
    owner,
    permits,
    leaseMs,
    queuedAt,
    deadlineAt - queuedAt,
    aliveUntil - queuedAt,
    ...(Object.keys(extras).length === 0 ? [] : [extras]),
  ]);
}

function fromText(written: string): Waiter {
  const [leaseId, owner, permits, leaseMs, queuedAt, waitMs, aliveMs, extras = {}] = parts(written);
  const numbers: Item = { permits, queuedAt, waitMs, aliveMs };
  const queued = epochMs(integer(numbers, 'queuedAt'));
  return {
    leaseId: asText(leaseId, 'tail'),
    owner: asText(owner, 'tail'),
    permits: integer(numbers, 'permits'),
    leaseMs: leaseMs === null ? null : integer({ leaseMs }, 'leaseMs'),
    ...fromExtras(asMap(extras, 'tail')),
    queuedAt: queued,
    deadlineAt: after(queued, integer(numbers, 'waitMs')),
    aliveUntil: after(queued, integer(numbers, 'aliveMs')),
  };
}

function parts(written: string): unknown[] {
  try {
    return list({ tail: JSON.parse(written) }, 'tail') as unknown[];
  } catch {
    throw unreadable('a waiter in the tail is no list');
  }
}

export function toQueueItem(queue: readonly Waiter[]): Item {
  const tail = queue.slice(frontLengthMax).map(toText);
  return {
    [lockWords.front]: queue.slice(0, frontLengthMax).map(toWaiterItem),
    ...(tail.length === 0 ? {} : { [lockWords.tail]: tail }),
    [lockWords.queueBytes]: queueWeight(queue),
  };
}

/** The queue as it lies, with those that were struck out. */
export const queueIn = (item: Item): QueueItem => ({
  front: list(item, lockWords.front).map((waiter) => asMap(waiter, lockWords.front)),
  tail:
    item[lockWords.tail] === undefined
      ? []
      : list(item, lockWords.tail).map((waiter) => asText(waiter, lockWords.tail)),
});

const stands = (item: Item): boolean => item[waiterWords.presentUntil] !== struckUntil;
const standsInTail = (written: string): boolean => written !== struckText;

export const waitersIn = ({ front, tail }: QueueItem): Waiter[] => [
  ...front.filter(stands).map(fromWaiterItem),
  ...tail.filter(standsInTail).map(fromText),
];

/** Where a waiter lies: in the front, found again by its lease, or in the tail, by its whole text. */
export type Place = { readonly front: number } | { readonly tail: number; readonly text: string };

export function placeOf({ front, tail }: QueueItem, leaseId: string): Place | undefined {
  const inFront = front.findIndex((item) => item[claimWords.leaseId] === leaseId && stands(item));
  if (inFront >= 0) return { front: inFront };
  const start = `[${JSON.stringify(leaseId)},`;
  const inTail = tail.findIndex((written) => written.startsWith(start));
  const found = tail[inTail];
  return found === undefined ? undefined : { tail: inTail, text: found };
}

/** Neither long nor struck: places are what the indexes say, and a release can serve the head by itself. */
export const isPlain = ({ front, tail }: QueueItem): boolean =>
  tail.length === 0 && front.length < frontLengthMax && front.every(stands);

/** A release would be refused for how the queue lies: its head was struck out, or the tail has to move up first. */
export const needsSwapToServe = ({ front, tail }: QueueItem): boolean => {
  const [head, second] = front;
  return head !== undefined && (!stands(head) || (second === undefined && tail.length > 0));
};
