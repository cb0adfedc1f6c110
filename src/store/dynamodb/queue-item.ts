/**
 * How the queue lies in a lock's item: `q`, the front, as maps whose parts a hand-off can use in an expression; and `t`, the tail,
 * as one short text each, because an item costs by its size and every write moves all of it. The front is never empty while the
 * tail is not. Who leaves from the middle is struck out in place, so that nobody else's place moves; a swap tidies up.
 */
import type { Waiter } from '../../lock/state.ts';
import { queueWeight, weightOf } from '../../lock/weight.ts';
import { after, epochMs } from '../../time/clock.ts';
import { type ClaimItem, type Extras, extrasOf, fromClaimItem, fromExtras, toClaimItem } from './claim-item.ts';

export interface WaiterItem extends ClaimItem {
  t: number;
  /** Its deadline. */
  u: number;
  /** Present until; zero where it was struck out. */
  k: number;
  /** What it adds to the queue's weight. */
  b: number;
  /** The step by which its grant raises the fence: one. A release adds the head's step, and nothing where there is no head. */
  g: 1;
}

export interface QueueItem {
  readonly q: readonly WaiterItem[];
  readonly t?: readonly string[];
}

/** Hand-offs before the tail has to move up, which takes a swap. More of them would make every write dearer: a map costs several texts. */
export const frontLengthMax = 8;
/** What is left in the tail, and in `k` of the front, of a waiter that was struck out. */
export const struckText = '-';
export const struckUntil = 0;

export const toWaiterItem = (waiter: Waiter): WaiterItem => ({
  ...toClaimItem(waiter),
  t: waiter.queuedAt,
  u: waiter.deadlineAt,
  k: waiter.aliveUntil,
  b: weightOf(waiter),
  g: 1,
});

const fromWaiterItem = (item: WaiterItem): Waiter => ({
  ...fromClaimItem(item),
  queuedAt: epochMs(item.t),
  deadlineAt: epochMs(item.u),
  aliveUntil: epochMs(item.k),
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

type Text = [string, string, number, number | null, number, number, number, Extras?];

function fromText(text: string): Waiter {
  const [leaseId, owner, permits, leaseMs, queued, waitMs, aliveMs, extras] = JSON.parse(text) as Text;
  const queuedAt = epochMs(queued);
  return {
    leaseId,
    owner,
    permits,
    leaseMs,
    ...fromExtras(extras ?? {}),
    queuedAt,
    deadlineAt: after(queuedAt, waitMs),
    aliveUntil: after(queuedAt, aliveMs),
  };
}

export function toQueueItem(queue: readonly Waiter[]): QueueItem & { qb: number } {
  const tail = queue.slice(frontLengthMax).map(toText);
  return {
    q: queue.slice(0, frontLengthMax).map(toWaiterItem),
    ...(tail.length === 0 ? {} : { t: tail }),
    qb: queueWeight(queue),
  };
}

const stands = (item: WaiterItem): boolean => item.k !== struckUntil;
const standsInTail = (text: string): boolean => text !== struckText;

export const fromQueueItem = ({ q, t = [] }: QueueItem): Waiter[] => [
  ...q.filter(stands).map(fromWaiterItem),
  ...t.filter(standsInTail).map(fromText),
];

/** Where a waiter lies: in the front, found again by its lease, or in the tail, by its whole text. */
export type Place = { readonly front: number } | { readonly tail: number; readonly text: string };

export function placeOf({ q, t = [] }: QueueItem, leaseId: string): Place | undefined {
  const front = q.findIndex((item) => item.i === leaseId && stands(item));
  if (front >= 0) return { front };
  const start = `[${JSON.stringify(leaseId)},`;
  const tail = t.findIndex((text) => text.startsWith(start));
  return tail < 0 ? undefined : { tail, text: t[tail] as string };
}

/** Neither long nor struck: places are what the indexes say, and a release can serve the head by itself. */
export const isPlain = ({ q, t = [] }: QueueItem): boolean =>
  t.length === 0 && q.length < frontLengthMax && q.every(stands);

/** A release would be refused for how the queue lies: its head was struck out, or the tail has to move up first. */
export const needsSwapToServe = ({ q, t = [] }: QueueItem): boolean => {
  const [head, second] = q;
  return head !== undefined && (!stands(head) || (second === undefined && t.length > 0));
};
