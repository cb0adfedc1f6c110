import type { LockContext } from '../service/context.ts';
import type { RecordContext } from '../service/records.ts';
import type { HistoryStore } from '../store/history.ts';
import type { SocketStore } from '../store/sockets.ts';

/** Where callers open WebSocket connections. */
export interface Sockets {
  readonly store: SocketStore;
  /** In AWS the WebSocket API has its own URL. Locally it is the host that the caller used. */
  url(host: string | undefined): string;
}

/** Everything that the operations need, wired once when a process starts. */
export interface Service {
  readonly locks: LockContext;
  readonly records: RecordContext;
  readonly history: HistoryStore;
  /** Undefined if there is no WebSocket, as in direct mode. */
  readonly sockets?: Sockets | undefined;
  /** Reads the store. Fails if the store can't be reached. */
  readonly probe: () => Promise<void>;
  /** The engine that holds the data: `dynamodb`, or the name of a local one. */
  readonly engine: string;
  readonly version: string;
}
