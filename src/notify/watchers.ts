/** Showing events to watchers by WebSocket. */
import { isWatching, type Watcher } from '../store/watchers.ts';
import { after, type EpochMs } from '../time/clock.ts';
import { pauseFor } from '../time/timers.ts';
import { errorText } from '../tools/error-text.ts';
import { forEachAtMost } from '../tools/pool.ts';
import { requireWithin } from '../tools/time-limit.ts';
import { type ChangeEvents, historyView } from './change-events.ts';
import type { PublisherPorts } from './ports.ts';

/** The management API answers in tens of milliseconds, even if the client reads slowly. After this time no answer will come. */
const postMsMax = 1_000;
/** One process can make fifty posts at a time. 1,000 watchers then take about half a second. */
const postsAtOnceMax = 50;
/** A batch of the stream waits no longer for its watchers. They miss events that are not posted by then. */
const pushMsMax = 5_000;
/** The pauses between tries of the first message. `$connect` is answered in less than these two seconds, or never. */
const welcomePausesMs = [10, 20, 50, 100, 200, 500, 1_000];

export const connectedMessage = (connectionId: string): string => JSON.stringify({ type: 'connected', connectionId });

/** Sends the first message. The stream may be faster than the answer to `$connect`. Then the connection does not exist yet. */
export async function welcome({ connections, watchers, pauses }: PublisherPorts, watcher: Watcher): Promise<void> {
  const { connectionId } = watcher;
  for (const pauseMs of [0, ...welcomePausesMs]) {
    if (pauseMs > 0) await pauseFor(pauses, pauseMs);
    const posted = await requireWithin(
      connections.post(connectionId, connectedMessage(connectionId)),
      postMsMax,
      pauses,
    );
    if (posted === 'gone') continue;
    await watchers.welcome(watcher);
    return;
  }
  await watchers.remove(connectionId);
}

/** The messages for one watcher. */
interface Messages {
  readonly watcher: Watcher;
  readonly texts: readonly string[];
}

/**
 * Sends changes to the watchers of those locks. The messages of each watcher go in order. Watchers do not wait for each other. A watcher
 * that is gone is removed. If a watcher does not take a message in time, only this watcher misses the rest of the batch.
 */
export async function push(ports: PublisherPorts, changes: readonly ChangeEvents[]): Promise<void> {
  const all: Messages[] = [];
  for (const [namespace, own] of Map.groupBy(changes, ({ change }) => change.key.namespace)) {
    const entries = own.flatMap((one) => one.entries);
    if (entries.length === 0) continue;
    const messages = entries.map(({ key, event }) => ({
      lock: key.name,
      text: JSON.stringify({ lock: key.name, ...historyView(event) }),
    }));
    for (const watcher of await ports.watchers.welcomed(namespace)) {
      const texts = messages.filter(({ lock }) => isWatching(watcher, lock)).map(({ text }) => text);
      if (texts.length > 0) all.push({ watcher, texts });
    }
  }
  const until = after(ports.clock.now(), pushMsMax);
  await forEachAtMost(all, postsAtOnceMax, (messages) => pushTo(ports, messages, until));
}

async function pushTo(ports: PublisherPorts, { watcher, texts }: Messages, until: EpochMs): Promise<void> {
  const { connections, watchers, clock, pauses, log } = ports;
  const { namespace, connectionId } = watcher;
  try {
    for (const text of texts) {
      if (clock.now() >= until) throw new Error(`Watchers did not take their events within ${pushMsMax} ms.`);
      const posted = await requireWithin(connections.post(connectionId, text), postMsMax, pauses);
      if (posted === 'gone') return await watchers.remove(connectionId);
    }
  } catch (error) {
    // Events to watchers are not guaranteed. A watcher finds missed events in the history.
    log.warn('A watcher missed events.', { namespace, error: errorText(error) });
  }
}
