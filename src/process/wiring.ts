import type { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import type { Service, Sockets } from '../http/service.ts';
import { systemLockContext } from '../service/context.ts';
import { systemRecordContext } from '../service/records.ts';
import { DynamoDBHistory } from '../store/dynamodb/history-items.ts';
import { DynamoDBLockStore } from '../store/dynamodb/lock-store.ts';
import { DynamoDBRecordStore } from '../store/dynamodb/record-items.ts';
import { DynamoDBSessionStore } from '../store/dynamodb/session-store.ts';
import { DynamoDBSockets } from '../store/dynamodb/socket-items.ts';
import type { TableCalls } from '../store/dynamodb/wire.ts';
import { version } from './version.ts';

export interface Wiring {
  readonly client: DynamoDBDocumentClient;
  readonly calls?: TableCalls | undefined;
  readonly tableName: string;
  /**
   * True if this is the only process on the table. It then notifies its own waiters of each write, and polls nothing.
   */
  readonly alone: boolean;
  readonly engine: string;
  /** Where callers open WebSockets, given the host that they called. Undefined if there are none. */
  readonly socketUrl?: Sockets['url'] | undefined;
  readonly pollMs?: number | undefined;
  readonly retentionMs?: number | undefined;
  readonly leaseMsMax?: number | undefined;
  readonly waitMsMax?: number | undefined;
}

/** The service on a table. It is the same wherever it runs. */
export function serviceOn(wiring: Wiring): Service {
  const { client, calls, tableName, alone, engine, socketUrl, retentionMs, pollMs, leaseMsMax, waitMsMax } = wiring;
  const address = { client, calls, tableName };
  const store = new DynamoDBLockStore({ ...address, retentionMs });
  const sessionStore = new DynamoDBSessionStore(address);
  return {
    locks: systemLockContext({ store, sessionStore, alone, pollMs, leaseMsMax, waitMsMax }),
    records: systemRecordContext(new DynamoDBRecordStore(address)),
    history: new DynamoDBHistory(address),
    sockets: socketUrl === undefined ? undefined : { store: new DynamoDBSockets(address), url: socketUrl },
    probe: async () => {
      await store.read({ namespace: 'health', name: 'probe' });
    },
    engine,
    version,
  };
}
