import type { LockContext } from '../service/context.ts';
import type { RecordContext } from '../service/records.ts';
import type { HistoryStore } from '../store/history-store.ts';
import type { SocketStore } from '../store/socket-store.ts';

/** Where callers open WebSocket connections. */
export interface Sockets {
  readonly store: SocketStore;
  /** Deployed, the WebSocket API has a URL of its own; locally it is the host that the caller asked. */
  url(host: string | undefined): string;
}

/** Everything that the operations need, wired once when a process starts. */
export interface Service {
  readonly locks: LockContext;
  readonly records: RecordContext;
  readonly history: HistoryStore;
  /** Absent where there is no WebSocket: on a table alone, and in direct mode. */
  readonly sockets?: Sockets | undefined;
  /** Reads the store; fails where it can't be reached. */
  readonly probe: () => Promise<void>;
  /** Which engine holds the data: `dynamodb`, or the name of a local one. */
  readonly engine: string;
  readonly version: string;
}
