/** Showing events to those who watch by WebSocket. */
import { isWatching, type Watcher } from '../store/watcher-store.ts';
import type { EpochMs } from '../time/clock.ts';
import { pauseFor } from '../time/timers.ts';
import { describe, eachBounded, within } from './bounded.ts';
import { historyView, type LockNews } from './news.ts';
import type { NotifierPorts } from './ports.ts';

/** The management API answers in tens of milliseconds, however slowly the client reads; later than this it won't. */
const postMsMax = 1_000;
/** Fifty at a time is what one container's sockets serve well; 1,000 watchers then take about half a second. */
const postsAtOnceMax = 50;
/** A batch of the stream waits no longer for its watchers: hand-overs are behind it. What is left unposted is lost to them. */
const pushMsMax = 5_000;
/** The first message is tried until `$connect` has been answered: nearly two seconds in all, and then it won't be. */
const welcomePausesMs = [10, 20, 50, 100, 200, 500, 1_000];

export const connectedMessage = (connectionId: string): string => JSON.stringify({ type: 'connected', connectionId });

/** The first message. The stream may be quicker than the answer to `$connect`, and then the connection is not there yet. */
export async function welcome({ connections, watchers, locks }: NotifierPorts, watcher: Watcher): Promise<void> {
  const { connectionId } = watcher;
  for (const pauseMs of [0, ...welcomePausesMs]) {
    if (pauseMs > 0) await pauseFor(locks.timers, pauseMs);
    const posted = await within(
      locks.timers,
      postMsMax,
      connections.post(connectionId, connectedMessage(connectionId)),
    );
    if (posted === 'gone') continue;
    await watchers.welcome(watcher);
    return;
  }
  await watchers.remove(connectionId);
}

interface Stack {
  readonly watcher: Watcher;
  readonly texts: readonly string[];
}

/**
 * Shows what happened to those who watch it. Each watcher's messages go in order; watchers do not wait for each other.
 * Who is gone is removed. Who does not take a message in time misses the rest of the batch, not the others.
 */
export async function push(ports: NotifierPorts, news: readonly LockNews[]): Promise<void> {
  const stacks: Stack[] = [];
  for (const [namespace, told] of Map.groupBy(news, ({ change }) => change.key.namespace)) {
    const entries = told.flatMap((one) => one.entries);
    if (entries.length === 0) continue;
    const messages = entries.map(({ key, event }) => ({
      lock: key.name,
      text: JSON.stringify({ lock: key.name, ...historyView(event) }),
    }));
    for (const watcher of await ports.watchers.welcomed(namespace)) {
      const texts = messages.filter(({ lock }) => isWatching(watcher, lock)).map(({ text }) => text);
      if (texts.length > 0) stacks.push({ watcher, texts });
    }
  }
  const { clock } = ports.locks;
  const until = (clock.now() + pushMsMax) as EpochMs;
  await eachBounded(stacks, postsAtOnceMax, (stack) => pushTo(ports, stack, until));
}

async function pushTo(ports: NotifierPorts, { watcher, texts }: Stack, until: EpochMs): Promise<void> {
  const { connections, watchers, locks, log } = ports;
  const { namespace, connectionId } = watcher;
  try {
    for (const text of texts) {
      if (locks.clock.now() >= until) throw new Error('The time for watchers was up.');
      const posted = await within(locks.timers, postMsMax, connections.post(connectionId, text));
      if (posted === 'gone') return await watchers.remove(connectionId);
    }
  } catch (error) {
    // Watching is a view, not a delivery: what it missed a watcher finds in the history.
    log.warn('A watcher missed events.', { namespace, error: describe(error) });
  }
}
