import type { DynamoDBRecord } from 'aws-lambda';
import { type Change, recordOf } from '../engine/change-stream.ts';
import { MemoryEngine } from '../engine/engine.ts';
import type { Service } from '../http/service.ts';
import type { LockKey } from '../lock/state.ts';
import { changeEventsOf } from '../notify/stream-handler.ts';
import { serviceOn } from '../process/wiring.ts';
import type { HistoryEntry } from '../store/history.ts';
import { BuiltInTable } from '../table/built-in.ts';
import { defaultTableName, tableDefinition } from '../table/shape.ts';
import { epochMs } from '../time/clock.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface MemoryService {
  readonly service: Service;
  /** Ends the leases on a lock as if their time, grace and lock delay were over. */
  expire(key: LockKey): Promise<void>;
}

/** The whole service on the built-in engine, in virtual time. Only time, randomness and ids are not the deployed ones. */
export function memoryService(
  time: VirtualTime,
  random: () => number,
  onEntry: (entry: HistoryEntry) => void,
): MemoryService {
  const engine = new MemoryEngine({ now: () => time.now(), onChange: (change) => publish(change) });
  engine.call('CreateTable', tableDefinition(defaultTableName));
  const access = { table: new BuiltInTable(engine), tableName: defaultTableName, clock: time, random, timers: time };
  const service = serviceOn({ access, alone: true, engine: 'memory' });
  // What the publisher does with the table's stream.
  const publish = (change: Change) => {
    const events = changeEventsOf(recordOf(change, 'twin') as DynamoDBRecord);
    if (events === undefined) return;
    void service.history.append(events.kept);
    for (const entry of events.entries) onEntry(entry);
  };
  const { locks, records } = service;
  let ids = 0;
  const newId = (kind: string) => () => `${kind}-${String(ids++).padStart(16, '0')}`;
  const expire = async (key: LockKey) => {
    const state = await locks.store.read(key);
    const holders = state.holders.map((holder) => ({
      ...holder,
      expiresAt: epochMs(time.now() - locks.graceMs - (holder.lockDelayMs ?? 0)),
    }));
    const next = { ...state, rev: state.rev + 1, changedAt: time.now(), holders };
    const written = await locks.store.write(key, { kind: 'replace', next });
    locks.cache.learn(key, written.state);
  };
  return {
    service: {
      ...service,
      locks: { ...locks, newLeaseId: newId('lease'), newSessionId: newId('session') },
      records: { ...records, newWriteId: newId('write') },
      version: 'twin',
    },
    expire,
  };
}
