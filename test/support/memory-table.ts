/** Every store on the built-in engine, in the memory of a test. */
import type { Change } from '../../src/engine/change-stream.ts';
import { MemoryEngine, type Usage } from '../../src/engine/engine.ts';
import { LockStore } from '../../src/queue/lock-store.ts';
import { PageStore } from '../../src/queue/page-store.ts';
import { HistoryStore } from '../../src/store/history.ts';
import { AwaitedLocks, DeliveryStore, TimerNotes } from '../../src/store/notices.ts';
import { RecordStore } from '../../src/store/records.ts';
import { SessionStore } from '../../src/store/session-store.ts';
import { SocketStore } from '../../src/store/sockets.ts';
import { WatcherStore } from '../../src/store/watchers.ts';
import { BuiltInTable } from '../../src/table/built-in.ts';
import type { TableAccess } from '../../src/table/item-table.ts';
import type { TableAnswers, TableOperation, TablePort, TableRequests } from '../../src/table/port.ts';
import { tableDefinition } from '../../src/table/shape.ts';
import type { Clock } from '../../src/time/clock.ts';
import type { Timers } from '../../src/time/timers.ts';

const tableName = 'table';

export interface MemoryTableOptions {
  readonly clock?: Clock;
  readonly timers?: Timers;
  readonly random?: () => number;
  readonly onChange?: (change: Change) => void;
  readonly onUsage?: (usage: Usage) => void;
  /** Called before each request. If it returns a promise, the request waits for it. If it throws, the request fails. */
  readonly before?: (operation: TableOperation, request: TableRequests[TableOperation]) => unknown;
}

export type MemoryStores = ReturnType<typeof memoryStores>;

/** The stores of one new table. */
export function memoryStores(options: MemoryTableOptions = {}) {
  const { clock, timers, random, onChange, onUsage } = options;
  const engine = new MemoryEngine({
    ...(clock && { now: () => clock.now() }),
    ...(onChange && { onChange }),
    ...(onUsage && { onUsage }),
  });
  engine.call('CreateTable', tableDefinition(tableName));
  const table = new WatchedTable(new BuiltInTable(engine), options.before);
  return { engine, table, ...storesOn({ table, tableName, clock, timers, random }) };
}

/** The stores on a table. */
export const storesOn = (access: TableAccess) => ({
  access,
  store: new LockStore(access),
  pages: new PageStore(access),
  sessionStore: new SessionStore(access),
  records: new RecordStore(access),
  history: new HistoryStore(access),
  sockets: new SocketStore(access),
  watchers: new WatcherStore(access),
  deliveries: new DeliveryStore(access),
  timerNotes: new TimerNotes(access),
  awaited: new AwaitedLocks(access),
});

/** A table that notes each request, and lets a test hold it up or fail it. */
class WatchedTable implements TablePort {
  readonly requests: { readonly operation: TableOperation; readonly request: TableRequests[TableOperation] }[] = [];
  readonly #inner: TablePort;
  before: MemoryTableOptions['before'];

  constructor(inner: TablePort, before: MemoryTableOptions['before']) {
    this.#inner = inner;
    this.before = before;
  }

  async call<Operation extends TableOperation>(
    operation: Operation,
    request: TableRequests[Operation],
  ): Promise<TableAnswers[Operation]> {
    this.requests.push({ operation, request });
    await this.before?.(operation, request);
    return this.#inner.call(operation, request);
  }
}
