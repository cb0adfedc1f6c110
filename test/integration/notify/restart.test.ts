import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { systemLockContext } from '../../../src/service/context.ts';
import { release } from '../../../src/service/lease.ts';
import { freshTable } from '../../support/engine.ts';
import { storesOn } from '../../support/memory-table.ts';
import { endStarted, type ServingProgram, startServing } from '../../support/program.ts';
import { callAt, lockAt, newLeaseId } from '../../support/service.ts';
import { type EventSink, startSink } from './sink.ts';

/** More than the front of the queue holds. */
const waiters = 14;
/** The notifier is killed right after this delivery. */
const killedAt = 5;

let sink: EventSink;
let folder: string;
beforeAll(async () => {
  sink = await startSink();
  folder = await mkdtemp(join(tmpdir(), 'holdfast-restart-'));
});
afterAll(async () => {
  await endStarted();
  await sink[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

function spawnService(table: string): Promise<ServingProgram> {
  const { endpoint, region } = inject('engine');
  const flags = ['--port', '0', '--engine', endpoint, '--region', region, '--table', table, '--data', folder];
  return startServing(flags, { env: { HOLDFAST_EVENTS_URL: sink.url } });
}

describe('a notifier that is killed and started again', () => {
  it('loses no grant, not even one that was made while none ran', async () => {
    const table = await freshTable();
    const locks = systemLockContext({ ...storesOn(table.access), alone: false });
    const key = { namespace: 'test', name: 'wallet' };
    let service = await spawnService(table.tableName);
    const lock = lockAt(callAt(service.url), key.name);
    const holder = await lock.acquire({ leaseMs: 60_000 });
    const leases: string[] = [];
    for (let index = 0; index < waiters; index++) {
      const leaseId = newLeaseId();
      leases.push(leaseId);
      await lock.acquire({ leaseId, leaseMs: 60_000, waitMs: 600_000, notify: { type: 'event', ref: `${index}` } });
    }
    await lock.release(holder.body.leaseId);
    for (const [index, leaseId] of leases.entries()) {
      await sink.told(`${index}`);
      if (index === killedAt) await service.end('SIGKILL');
      // Released without the service, so that it does not matter whether one runs.
      await release(locks, key, { leaseId });
      if (index === killedAt) service = await spawnService(table.tableName);
    }
    await service.end('SIGTERM');
    const refs = sink.toldRefs();
    expect([...new Set(refs)]).toEqual(leases.map((_, index) => `${index}`));
    // Only a delivery at the moment of the kill may be repeated.
    const repeated = refs.filter((ref, index) => refs.indexOf(ref) !== index);
    expect(repeated.filter((ref) => ref !== `${killedAt}`)).toEqual([]);
  });
});
