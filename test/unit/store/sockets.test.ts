import { describe, expect, it } from 'vitest';
import { epochMs } from '../../../src/time/clock.ts';
import { startOfTime } from '../../support/lock-worlds.ts';
import { memoryStores } from '../../support/memory-table.ts';

const owner = { namespace: 'shop', caller: 'me' };
const expiresAt = epochMs(startOfTime + 60_000);
const justBefore = epochMs(expiresAt - 1);

describe('a ticket', () => {
  it('opens one connection, once', async () => {
    const { sockets } = memoryStores();
    await sockets.issue('secret', { ...owner, expiresAt });
    expect(await sockets.redeem('secret', justBefore)).toEqual(owner);
    expect(await sockets.redeem('secret', justBefore)).toBeUndefined();
  });

  it('opens none from its end on, and none if it was never issued', async () => {
    const { sockets } = memoryStores();
    await sockets.issue('secret', { ...owner, expiresAt });
    expect(await sockets.redeem('secret', expiresAt)).toBeUndefined();
    expect(await sockets.redeem('another', startOfTime)).toBeUndefined();
  });
});
