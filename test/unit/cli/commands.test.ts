import { describe, expect, it } from 'vitest';
import { shell } from './in-process.ts';

describe('acquire', () => {
  it('shows metadata to others as it was given, whatever it contains', async () => {
    const { other, run } = shell();
    await run(['acquire', 'a', '--meta', 'build=7,query=a=b']);
    expect((await other.inspect('a')).holders[0]?.metadata).toEqual({ build: '7', query: 'a=b' });
  });

  it.each([
    ['is held', []],
    ['stays held for the whole wait', ['--wait', '2s']],
  ])('skips a lock that %s, if asked to', async (_, wait) => {
    const { other, run } = shell();
    await other.acquire('a', { leaseMs: 60_000 });
    expect(await run(['acquire', 'a', '--if-held', 'skip', ...wait])).toMatchObject({ code: 0, stdout: '' });
    await expect(run(['acquire', 'a', ...wait])).rejects.toMatchObject({ name: expect.stringMatching(/Held|Timeout/) });
  });
});

describe('check', () => {
  it('exits with 0 if the fence holds, and with 1 if it does not', async () => {
    const { other, run } = shell();
    const { fence } = await other.acquire('a');
    expect((await run(['check', 'a', String(fence)])).code).toBe(0);
    expect((await run(['check', 'a', String(fence - 1)])).code).toBe(1);
  });
});

describe('multi release', () => {
  it('exits with 76 if a lock was no longer held, and with 0 if it was only released before', async () => {
    const { other, run } = shell();
    const env = { HOLDFAST_LEASE_ID: 'a-lease-of-this-test' };
    expect((await run(['multi', 'release', 'a'], env)).code).toBe(76);
    const both = JSON.parse((await run(['multi', 'acquire', 'a', 'b', '--json'])).stdout);
    const release = ['multi', 'release', 'a', 'b', '--lease-id', both.leaseId];
    expect(await run(release)).toMatchObject({ code: 0, stdout: 'a released\nb released\n' });
    expect((await run(release)).code).toBe(0);
    await other.acquire('b');
    expect((await run(['multi', 'release', 'b', '--lease-id', 'somebody-elses-lease'])).code).toBe(76);
  });
});

describe('record', () => {
  it('needs exactly one expectation for a write', async () => {
    const { other, run } = shell();
    const put = (...flags: string[]) => run(['record', 'put', 'k', '1', ...flags]);
    await expect(put()).rejects.toThrow('Say what the write expects');
    await expect(put('--if-absent', '--if-present')).rejects.toThrow('Say what the write expects');
    await expect(put('--if-absent', '--if-version', '0')).rejects.toThrow('Say what the write expects');
    expect(await other.record('k').get()).toBeUndefined();
    expect((await put('--if-absent')).code).toBe(0);
  });

  it('exits with 1 if there is none', async () => {
    const { run } = shell();
    expect((await run(['record', 'get', 'k'])).code).toBe(1);
  });
});

describe('history', () => {
  it('shows as many events as asked for, newest first', async () => {
    const { other, run } = shell();
    for (let turn = 0; turn < 3; turn++) await other.withLock('a', () => 1);
    const { events } = JSON.parse((await run(['history', 'a', '--limit', '3', '--json'])).stdout);
    expect(events.map(({ type }: { type: string }) => type)).toEqual(['released', 'granted', 'released']);
  });
});

describe('revoke', () => {
  it('exits with 1 if the fence does not hold, and says where to look', async () => {
    const { other, run } = shell();
    const { fence } = await other.acquire('a');
    const revoke = (lock: string, of: number) => run(['revoke', lock, '--fence', String(of), '--reason', 'stuck']);
    for (const [lock, of] of [
      ['never-used', 5],
      ['a', fence - 1],
    ] as const) {
      await expect(revoke(lock, of)).rejects.toMatchObject({
        exitCode: 1,
        message: expect.stringContaining(`inspect ${lock}`),
      });
    }
    expect((await revoke('a', fence)).code).toBe(0);
  });
});

describe('watch', () => {
  it('watches every lock with an empty prefix', async () => {
    const { twin, other, start } = shell();
    const watching = start(['watch', '--prefix', '', '--count', '2', '--json']);
    await twin.settle();
    await other.acquire('a');
    await other.acquire('b');
    expect((await watching).stdout).toMatch(/"lock":"a"[\s\S]*"lock":"b"/);
  });

  it('ends after as many events as asked for, without counting its connections', async () => {
    const { twin, other, start } = shell();
    const watching = start(['watch', 'a', '--count', '2', '--json']);
    await twin.settle();
    await other.withLock('a', () => 1);
    const types = (await watching).stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).type);
    expect(types).toEqual(['connected', 'granted', 'released']);
  });

  it('fails at once if the service cannot be reached, because a WebSocket does not say why', async () => {
    const { twin, client, run } = shell();
    twin.partition(client);
    await expect(run(['watch', 'a', '--count', '1'])).rejects.toMatchObject({ code: 'unavailable' });
  });
});

describe('doctor', () => {
  /** Answers that say another time than ours. */
  const withDate = (skewMs: number) =>
    shell((transport) => ({
      ...transport,
      request: async (call, signal) => {
        const answer = await transport.request(call, signal);
        return { ...answer, headers: { ...answer.headers, date: new Date(Date.now() + skewMs).toUTCString() } };
      },
    }));

  it.each([
    [0, 'ok', 'agrees with'],
    [600_000, 'warn', 'behind'],
    [-600_000, 'warn', 'ahead of'],
  ])('compares the clocks: the service is %i ms ahead', async (skewMs, status, words) => {
    const { run } = withDate(skewMs);
    const { ok, checks } = JSON.parse((await run(['doctor', '--json'])).stdout);
    const clock = checks.find(({ check }: { check: string }) => check === 'clock');
    expect([ok, clock.status]).toEqual([true, status]);
    expect(clock.detail).toContain(words);
    if (skewMs !== 0) expect(clock.detail).toContain('AWS refuses such signatures');
  });
});
