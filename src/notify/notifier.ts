/**
 * The stream-driven notifier: stream records in, deliveries out.
 *
 *     record ──> change ──> events ──┬─> deliver  grants to parked waiters, failures to their tasks
 *                                    ├─> arm      timers for the reaper
 *                                    └─> refill   the front of a long queue, before it is empty
 *
 * It does only what waiters depend on. The publisher does the rest, and reads the stream separately.
 */

import { hasMore, type LockState, lockIdOf } from '../lock/state.ts';
import { runsLow } from '../lock/view.ts';
import { refill } from '../service/apply.ts';
import { bareFacts, factsAbout } from '../service/context.ts';
import { epochMs } from '../time/clock.ts';
import { forEachAtMost } from '../tools/pool.ts';
import { callsForTimer, lookDueAt } from './look-times.ts';
import { deliverEndedWait, deliverGrant } from './parked.ts';
import type { NotifierPorts } from './ports.ts';
import {
  atOnceMax,
  type ChangeItem,
  changesIn,
  createStreamHandler,
  type Effect,
  eachItem,
  type StreamHandler,
  type StreamItem,
} from './stream-handler.ts';

export function createNotifier(ports: NotifierPorts): StreamHandler {
  return createStreamHandler(notifierEffects(ports), ports.log, ports.meter);
}

/** For a process that reads the stream once for all effects. */
export function notifierEffects(ports: NotifierPorts): Effect[] {
  const effects = { deliver: deliverAll, arm: armAll, 'arm-pages': armForPages, refill: refillAll };
  return Object.entries(effects).map(([name, run]) => ({ name, run: (items) => run(ports, changesIn(items)) }));
}

function deliverAll(ports: NotifierPorts, items: readonly ChangeItem[]): Promise<readonly StreamItem[]> {
  const concerned = items.filter(({ events }) => events.grants.length + events.endedWaits.length > 0);
  return eachItem(ports.log, 'deliver', concerned, async ({ events: { change, grants, endedWaits } }) => {
    const deliveries = [
      ...grants.map((holder) => () => deliverGrant(ports, change.key, holder)),
      ...endedWaits.map((wait) => () => deliverEndedWait(ports, change.key, wait)),
    ];
    await forEachAtMost(deliveries, atOnceMax, (deliver) => deliver());
  });
}

/** At most one timer per lock, even after several changes in this batch. The latest state says when. */
async function armAll(
  { locks, timers, log }: NotifierPorts,
  items: readonly ChangeItem[],
): Promise<readonly StreamItem[]> {
  const byLock = Map.groupBy(
    items.filter(({ events: { change } }) => isAwaited(change.after)),
    lockIdIn,
  );
  const latest = [...byLock.values()].map((changes) => changes.at(-1) as ChangeItem);
  const left = await eachItem(log, 'arm', latest, async (item) => {
    const { key, after } = item.events.change;
    const facts = await factsAbout(locks, key, after);
    const isCalledFor = byLock
      .get(lockIdIn(item))
      ?.some(({ events: { change } }) => callsForTimer(change.before, change.after, facts));
    const dueAt = lookDueAt(after, facts);
    if (isCalledFor && dueAt !== null) await timers.arm(key, dueAt);
  });
  return left.flatMap((item) => byLock.get(lockIdIn(item)) ?? []);
}

/** A timer for the first deadline of the waiters that have just parked in a page. */
function armForPages({ timers, log }: NotifierPorts, items: readonly ChangeItem[]): Promise<readonly StreamItem[]> {
  const concerned = items.filter(({ events: { parked = [] } }) => parked.length > 0);
  return eachItem(log, 'arm-pages', concerned, async ({ events: { change, parked = [] } }) => {
    await timers.arm(change.key, epochMs(Math.min(...parked.map(({ deadlineAt }) => deadlineAt))));
  });
}

/** Moves a page up for each lock whose front has few waiters left, so that no release has to do it. */
function refillAll({ locks, log }: NotifierPorts, items: readonly ChangeItem[]): Promise<readonly StreamItem[]> {
  const low = items.filter(({ events: { change } }) => runsLow(change.after, bareFacts(locks)));
  const byLock = new Map(low.map((item) => [lockIdIn(item), item]));
  return eachItem(log, 'refill', [...byLock.values()], async ({ events: { change } }) => {
    await refill(locks, change.key, change.after);
  });
}

const isAwaited = (state: LockState): boolean => state.queue.length > 0 || hasMore(state);

const lockIdIn = ({ events: { change } }: ChangeItem): string => lockIdOf(change.key);
