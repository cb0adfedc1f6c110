import type { EpochMs } from '../time/clock.ts';

/** What a connection watches: one lock, all whose names begin alike, or nothing: it is there for its own waits alone. */
export type Subject = { readonly lock: string } | { readonly prefix: string } | 'nothing';

/** An open WebSocket connection. */
export interface Watcher {
  readonly namespace: string;
  readonly caller: string;
  readonly connectionId: string;
  readonly connectedAt: EpochMs;
  readonly subject: Subject;
}

/** Who watches. Gone connections are removed when they say goodbye, or else when something can't be posted to them. */
export interface WatcherStore {
  add(watcher: Watcher): Promise<void>;

  /** The watcher has had its first message; from now on it is shown events. False if it has left in the meantime. */
  welcome(watcher: Watcher): Promise<boolean>;

  /** Those of a namespace that watch something and have had their first message. Strongly consistent, so that nothing is missed after it. */
  welcomed(namespace: string): Promise<readonly Watcher[]>;

  /** By its id alone, which is all that a goodbye tells. */
  remove(connectionId: string): Promise<void>;
}

export const isWatching = ({ subject }: Watcher, lock: string): boolean =>
  subject !== 'nothing' && ('lock' in subject ? subject.lock === lock : lock.startsWith(subject.prefix));
