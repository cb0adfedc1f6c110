import type { DynamoDBBatchResponse, DynamoDBRecord } from 'aws-lambda';
import type { Answer, Call, Transport } from '../../src/client/transport.ts';
import type { Service } from '../../src/http/service.ts';
import { DirectTransport } from '../../src/server/direct-transport.ts';
import { systemLockContext } from '../../src/service/system.ts';
import { DynamoDBHistory } from '../../src/store/dynamodb/history-items.ts';
import { DynamoDBLockStore } from '../../src/store/dynamodb/lock-store.ts';
import { DynamoDBRecordStore } from '../../src/store/dynamodb/record-store.ts';
import { DynamoDBSessionStore } from '../../src/store/dynamodb/session-store.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { type Clock, epochMs } from '../../src/time/clock.ts';
import type { Chance } from '../simulation/chance.ts';
import type { ModelledTable } from './modelled-table.ts';
import { accessTo } from './table-access.ts';

export const tableName = 'holdfast';

export interface ProcessParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly table: ModelledTable;
}

/** One process that serves: the code that is deployed, with a memory of its own, on the modelled table. */
export function serviceIn({ time, chance, table }: ProcessParts): Service {
  const clock: Clock = { now: () => epochMs(time.now()) };
  const random = chance.next;
  const access = accessTo(table, tableName, random);
  const sessionStore = new DynamoDBSessionStore(access);
  const locks = systemLockContext({
    store: new DynamoDBLockStore(access),
    sessionStore,
    alone: false,
    clock,
    timers: time,
    random,
  });
  return {
    locks,
    records: { store: new DynamoDBRecordStore(access), clock, newWriteId: () => `W${chance.next()}` },
    history: new DynamoDBHistory({ ...access, clock }),
    probe: () => Promise.resolve(),
    engine: 'modelled',
    version: 'modelled',
  };
}

/** What a caller's gone connection would fire. Lambda never sees one. */
const never = new AbortController().signal;

export function handlerIn(parts: ProcessParts): (call: Call) => Promise<Answer> {
  const operations: Transport = new DirectTransport(serviceIn(parts));
  return (call) => operations.request(call, never);
}

export type Notify = (records: readonly DynamoDBRecord[]) => Promise<DynamoDBBatchResponse>;
