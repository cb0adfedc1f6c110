import { describe, expect, it } from 'vitest';
import { StaleFenceError, TooManyRetriesError, VersionMismatchError } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';

const world = () => {
  const twin = new Twin();
  return { twin, one: twin.client(), other: twin.client() };
};

describe('record', () => {
  it('is undefined if there is none, and keeps any JSON', async () => {
    const { one } = world();
    const record = one.record('config');
    expect(await record.get()).toBeUndefined();
    expect(await record.put({ deep: [null, 'ü', 1.5] }, 'absent')).toMatchObject({ version: 1 });
    expect(await record.get()).toMatchObject({ value: { deep: [null, 'ü', 1.5] }, version: 1, fence: null });
    await record.delete({ version: 1 });
    expect(await record.get()).toBeUndefined();
    expect(await record.put('again', 'absent')).toMatchObject({ version: 3 });
  });

  it('ends at its end, and its version and floor continue', async () => {
    const { twin, one } = world();
    const record = one.record('reply');
    expect(await record.put('yes', 'absent', { fence: 7, expiresInMs: 60_000 })).toMatchObject({
      version: 1,
      expiresAt: new Date(twin.now() + 60_000).toISOString(),
      remainingMs: 60_000,
    });
    await twin.advance(59_999);
    expect(await record.get()).toMatchObject({ value: 'yes', remainingMs: 1 });
    await expect(record.put('no', 'absent', { fence: 7 })).rejects.toThrow(VersionMismatchError);
    await twin.advance(1);
    expect(await record.get()).toBeUndefined();
    await expect(record.put('no', { version: 1 }, { fence: 7 })).rejects.toMatchObject({ version: null });
    await expect(record.put('no', 'absent', { fence: 6 })).rejects.toThrow(StaleFenceError);
    await expect(record.put('no', 'absent', { fence: 6 })).rejects.toMatchObject({ code: 'stale-fence', floor: 7 });
    expect(await record.put('no', 'absent', { fence: 7 })).toEqual(
      expect.not.objectContaining({ expiresAt: expect.anything() }),
    );
    expect(await record.get()).toMatchObject({ value: 'no', version: 2, fence: 7 });
  });

  it.each([999, 31_536_000_001, 1.5])('refuses an end of %d ms and names the field', async (expiresInMs) => {
    const { one } = world();
    await expect(one.record('reply').put(1, 'absent', { expiresInMs })).rejects.toMatchObject({
      code: 'invalid-request',
      errors: [{ field: 'expiresInMs' }],
    });
  });

  it('refuses a version that is not the current one', async () => {
    const { one } = world();
    await one.record('config').put(1, 'absent');
    await expect(one.record('config').put(2, { version: 7 })).rejects.toMatchObject({
      name: 'VersionMismatchError',
      version: 1,
    });
    await expect(one.record('config').put(2, 'absent')).rejects.toThrow(VersionMismatchError);
    await expect(one.record('other').put(2, 'present')).rejects.toMatchObject({ version: null });
  });

  it('refuses the fence of a holder that paused', async () => {
    const { twin, one, other } = world();
    const paused = await one.acquire('wallet:42', { leaseMs: 10_000 });
    await one.record('wallet:42').put({ balance: 10 }, 'absent', { fence: paused.fence });
    twin.freeze(one);
    await twin.advance(20_000);
    const later = await other.acquire('wallet:42', { waitMs: 0 });
    await other.record<{ balance: number }>('wallet:42').update(() => ({ balance: 5 }), { fence: later.fence });
    await twin.thaw(one);
    const late = one.record('wallet:42').put({ balance: 0 }, 'present', { fence: paused.fence });
    await expect(twin.until(late)).rejects.toThrow(StaleFenceError);
    expect((await other.record('wallet:42').get())?.value).toEqual({ balance: 5 });
    expect(paused.signal.aborted).toBe(true);
  });

  it('writes once, even if the answer is lost several times', async () => {
    const { twin, one } = world();
    await one.record('hits').put(0, 'absent');
    twin.loseResponse(one, { operation: 'putRecord', times: 2 });
    const { value, version } = await twin.until(one.record<number>('hits').update((hits = 0) => hits + 1));
    expect({ value, version }).toEqual({ value: 1, version: 2 });
    expect((await one.record('hits').get())?.value).toBe(1);
  });
});

describe('update', () => {
  it('loses no write if many write at once', async () => {
    const { twin } = world();
    const clients = Array.from({ length: 8 }, () => twin.client());
    const increments = clients.map((client) =>
      client.record<number>('hits').update((hits = 0) => hits + 1, { triesMax: 50 }),
    );
    await twin.until(Promise.all(increments));
    expect((await clients[0]?.record('hits').get())?.value).toBe(8);
  });

  it('gives up after triesMax tries', async () => {
    const { twin, one, other } = world();
    let version = 1;
    await other.record('hits').put(0, 'absent');
    const update = one.record<number>('hits').update(
      async (hits = 0) => {
        version = (await other.record('hits').put(hits + 10, { version })).version;
        return hits + 1;
      },
      { triesMax: 4 },
    );
    const error = await twin.until(update).catch((caught) => caught);
    expect(error).toBeInstanceOf(TooManyRetriesError);
    expect(error).toMatchObject({ tries: 4, cause: { code: 'version-mismatch' } });
  });

  it('ends at once when its signal fires between two tries', async () => {
    const twin = new Twin();
    const [one, other] = [twin.client(), twin.client()];
    const giveUp = new AbortController();
    let writes = 0;
    const rival = () => other.record<number>('busy').update(() => ++writes);
    let reason: unknown;
    const updating = one
      .record<number>('busy')
      .update(async () => (await rival()).value, { triesMax: 1_000, signal: giveUp.signal })
      .catch((error: unknown) => {
        reason = error;
      });
    await twin.advance(10_000);
    giveUp.abort(new Error('no patience'));
    await twin.settle();
    expect(reason).toMatchObject({ message: 'no patience' });
    await updating;
  });

  it('throws the error of the function', async () => {
    const { one } = world();
    const update = one.record('hits').update(() => {
      throw new Error('can not compute');
    });
    await expect(update).rejects.toThrow('can not compute');
  });
});
