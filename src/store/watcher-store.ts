import type { EpochMs } from '../time/clock.ts';

/** What a connection watches: one lock, all locks with a prefix, or nothing. In the last case it is only for its own waits. */
export type Subject = { readonly lock: string } | { readonly prefix: string } | 'nothing';

/** An open WebSocket connection. */
export interface Watcher {
  readonly namespace: string;
  readonly caller: string;
  readonly connectionId: string;
  readonly connectedAt: EpochMs;
  readonly subject: Subject;
}

/** The watchers. A connection is removed when it is closed, or when a post to it fails. */
export interface WatcherStore {
  add(watcher: Watcher): Promise<void>;

  /** The watcher got its first message, so from now on it gets events. False if it has left in the meantime. */
  welcome(watcher: Watcher): Promise<boolean>;

  /** The watchers of a namespace that watch something and got their first message. Strongly consistent, so no event is missed after it. */
  welcomed(namespace: string): Promise<readonly Watcher[]>;

  /** By its id alone, because `$disconnect` has only the id. */
  remove(connectionId: string): Promise<void>;
}

export const isWatching = ({ subject }: Watcher, lock: string): boolean =>
  subject !== 'nothing' && ('lock' in subject ? subject.lock === lock : lock.startsWith(subject.prefix));
