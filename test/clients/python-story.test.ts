/** The program of docs/python.md beside a kill, a pause beyond the lease and a bad network. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blocksIn } from '../docs/blocks.ts';
import { startService, type TestService } from '../support/service.ts';
import { Chance } from '../world/chance.ts';
import { FaultyProxy } from './proxy.ts';
import { hasPython, pythonEnv, warnSkipped } from './python.ts';

if (!hasPython) warnSkipped('count.py of docs/python.md is not run.', 'apt-get install python3 (3.10 or newer)');

const { text: program = '' } = blocksIn('python').find(({ text }) => text.startsWith('# count.py')) ?? {};
/** The same program, which pauses within its update until it gets a line. */
const pausing = program.replace(
  'lambda now: (now or 0) + 1',
  'lambda now: (print("computing", flush=True), input(), (now or 0) + 1)[2]',
);

class Running {
  readonly counted: number[] = [];
  readonly process: ChildProcess;
  readonly ended: Promise<unknown>;
  printed = '';

  constructor(text: string, url: string) {
    const env = { ...process.env, ...pythonEnv, HOLDFAST_URL: url };
    const child = spawn('python3', ['-c', text], { env, stdio: ['pipe', 'pipe', 'pipe'] });
    this.process = child;
    this.ended = once(child, 'close');
    child.stderr.on('data', (data) => {
      this.printed += data;
    });
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.printed += `${line}\n`;
      const [, value] = /^counted (\d+)$/.exec(line) ?? [];
      if (value !== undefined) this.counted.push(Number(value));
    });
  }
}

describe('count.py of docs/python.md', () => {
  let service: TestService;
  let proxy: FaultyProxy;
  let url: string;
  beforeAll(async () => {
    service = await startService();
    proxy = new FaultyProxy(service.url);
    url = await proxy.listen();
  });
  afterAll(async () => {
    await proxy.close();
    await service.stop();
  });

  it.skipIf(!hasPython)('counts each update once, and refuses the one that paused', async () => {
    const paused = new Running(pausing, url);
    await expect.poll(() => paused.printed).toContain('computing');
    paused.process.kill('SIGSTOP');
    const chance = new Chance(1);
    proxy.rule = () => (chance.happens(0.15) ? { cut: chance.pick(['before', 'after'] as const) } : undefined);
    const others = [1, 2, 3].map(() => new Running(program, url));
    const killed = new Running(program, url);
    // The first of them gets the lock after the lease of the paused one has ended.
    await expect.poll(() => others.flatMap(({ counted }) => counted).length).toBeGreaterThan(1);
    killed.process.kill('SIGKILL');
    paused.process.kill('SIGCONT');
    paused.process.stdin?.end('go on\n');
    await Promise.all([...others, killed, paused].map(({ ended }) => ended));
    proxy.rule = () => undefined;

    expect(paused.counted).toEqual([]);
    expect(paused.printed).toMatch(/StaleFenceError|LeaseLostError/);
    for (const { counted, printed } of others) expect(counted, printed).toHaveLength(5);
    const counted = [...others, killed].flatMap((one) => one.counted);
    expect(new Set(counted).size).toBe(counted.length);
    // The killed process may have written once more than it could say.
    const { body } = await service.call('GET', '/v1/payments/records/counter');
    expect([counted.length, counted.length + 1]).toContain(body.value);
  });
});
