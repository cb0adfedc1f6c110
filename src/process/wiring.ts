import type { Service, Sockets } from '../http/service.ts';
import { LockStore } from '../queue/lock-store.ts';
import { PageStore } from '../queue/page-store.ts';
import type { QueueSizes } from '../queue/pages.ts';
import { systemLockContext } from '../service/context.ts';
import { systemRecordContext } from '../service/records.ts';
import { HistoryStore } from '../store/history.ts';
import { RecordStore } from '../store/records.ts';
import { SessionStore } from '../store/session-store.ts';
import { SocketStore } from '../store/sockets.ts';
import type { TableAccess } from '../table/item-table.ts';
import { version } from './version.ts';

export interface Wiring {
  readonly access: TableAccess;
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
  /** Other sizes of front and page than the defaults, for tests. */
  readonly sizes?: QueueSizes | undefined;
}

/** The service on a table. It is the same wherever it runs: on AWS, on one machine, in the twin and in the simulation. */
export function serviceOn(wiring: Wiring): Service {
  const { access, alone, engine, socketUrl, retentionMs, ...settings } = wiring;
  const { clock, timers, random } = access;
  const store = new LockStore({ ...access, retentionMs });
  const sessionStore = new SessionStore(access);
  return {
    locks: systemLockContext({
      store,
      pages: new PageStore(access),
      sessionStore,
      alone,
      clock,
      timers,
      random,
      ...settings,
    }),
    records: systemRecordContext(new RecordStore(access), clock),
    history: new HistoryStore(access),
    sockets: socketUrl === undefined ? undefined : { store: new SocketStore(access), url: socketUrl },
    probe: async () => {
      await store.read({ namespace: 'health', name: 'probe' });
    },
    engine,
    version,
  };
}
