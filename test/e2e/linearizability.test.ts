import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dynoxideCommand, findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { answersWithin, freePort, localCredentials } from '../../src/local/engine/endpoint.ts';
import { checkByKey, describeVerdict } from '../support/linearizability.ts';
import {
  forgettableIn,
  type LockOperation,
  mutexSpecification,
  type RecordOperation,
  recordSpecification,
  relevantOf,
} from '../support/lock-histories.ts';
import { startServing } from '../support/program.ts';
import { wide } from '../support/wide.ts';
import { Chance } from '../world/chance.ts';
import { BadProxy } from './bad-proxy.ts';
import { type Note, Worker } from './linearizability-worker.ts';

const region = 'us-east-1';
/** One round is long enough for a few kills and a hundred holders of a lock. A busy machine needs more of them. */
const roundMs = wide ? 20_000 : 7_000;
const roundsMax = 15;
/** Observer and service read the same clock, to the millisecond. */
const skewMs = 2;
const seed = Number(process.env.HOLDFAST_SEED ?? Date.now() % 1_000_000_000);
const chance = new Chance(seed);
const dynoxide = findDynoxide();

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A process that can be killed and started again on the same port. */
class Restartable {
  readonly #start: () => Promise<ChildProcess>;
  #child: ChildProcess | undefined;
  deaths = 0;

  constructor(start: () => Promise<ChildProcess>) {
    this.#start = start;
  }

  async start(): Promise<void> {
    this.#child = await this.#start();
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    this.deaths += 1;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
}

let folder: string;
let engine: Restartable;
const services: Restartable[] = [];
const proxies: BadProxy[] = [];
const urls: string[] = [];

async function startEngine(port: number): Promise<ChildProcess> {
  const { file, args } = dynoxideCommand(dynoxide as string, { port, folder });
  const child = spawn(file, args, { stdio: 'ignore' });
  await answersWithin(
    { endpoint: `http://127.0.0.1:${port}`, region, credentials: localCredentials },
    120_000,
    () => false,
  );
  return child;
}

async function startService(port: number, enginePort: number): Promise<ChildProcess> {
  const flags = ['--port', String(port), '--engine', `http://127.0.0.1:${enginePort}`, '--memory', '--poll-ms', '2000'];
  return (await startServing(flags)).process;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-linearizability-'));
  const enginePort = await freePort();
  engine = new Restartable(() => startEngine(enginePort));
  await engine.start();
  for (let index = 0; index < 2; index++) {
    const port = await freePort();
    const service = new Restartable(() => startService(port, enginePort));
    await service.start();
    services.push(service);
    const proxy = new BadProxy(port, chance.branch());
    proxies.push(proxy);
    urls.push(await proxy.listen());
  }
});

afterAll(async () => {
  for (const proxy of proxies) await proxy.close();
  for (const each of [...services, engine]) await each?.kill();
  await rm(folder, { recursive: true, force: true });
});

/** A client in its own process. The test stops it until its leases have ended, and lets it go on. */
function stoppedClient(name: string, endsAt: number, note: (note: Note) => void): Promise<void> {
  const script = fileURLToPath(new URL('./linearizability-worker.ts', import.meta.url));
  const child = spawn(
    process.execPath,
    [script, name, urls.join(), String(chance.between(1, 1_000_000)), String(endsAt)],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  createInterface({ input: child.stdout }).on('line', (line) => note(JSON.parse(line) as Note));
  const stopAndGo = async () => {
    while (child.exitCode === null && Date.now() < endsAt) {
      await pause(chance.between(500, 2_500));
      child.kill('SIGSTOP');
      await pause(chance.between(500, 3_500));
      child.kill('SIGCONT');
    }
  };
  return Promise.all([once(child, 'close'), stopAndGo()]).then(() => undefined);
}

/** Kills a service every few seconds, and sometimes the engine. Each is started again after a moment. */
async function killAtRandom(endsAt: number): Promise<void> {
  while (Date.now() < endsAt) {
    await pause(chance.between(1_500, 3_000));
    const victim = chance.happens(0.25) ? engine : chance.pick(services);
    await victim.kill();
    await pause(chance.between(50, 500));
    await victim.start();
  }
}

const add = <T>(histories: Map<string, T[]>, key: string, operation: T): void => {
  histories.set(key, [...(histories.get(key) ?? []), operation]);
};

describe.skipIf(dynoxide === undefined)('real runs with cut connections, killed processes and stopped clients', () => {
  it('are linearizable, lock by lock and record by record', async () => {
    const locks = new Map<string, LockOperation[]>();
    const records = new Map<string, RecordOperation[]>();
    const note = (each: Note) =>
      each.about === 'lock' ? add(locks, each.key, each.operation) : add(records, each.key, each.operation);
    // A kind of operation that never happened is not proved. So the test goes on until all have happened.
    const isEnough = () => {
      const operations = [...locks.values(), ...records.values()].flat();
      const grants = [...locks.values()].flat().filter(({ answer }) => answer?.output.kind === 'granted');
      const unanswered = operations.filter(({ answer }) => answer === undefined);
      const deaths = services.reduce((sum, service) => sum + service.deaths, 0);
      return operations.length > 200 && grants.length > 50 && unanswered.length > 3 && deaths > 1;
    };
    for (let round = 1; round === 1 || (!isEnough() && round <= roundsMax); round++) {
      const endsAt = Date.now() + roundMs;
      const workers = Array.from({ length: 5 }, (_, index) => {
        const seedOfOne = chance.between(1, 1_000_000);
        return new Worker({ name: `client ${index} of ${round}`, urls, seed: seedOfOne, note }).runUntil(endsAt);
      });
      await Promise.all([
        ...workers,
        stoppedClient(`stopped 1 of ${round}`, endsAt, note),
        stoppedClient(`stopped 2 of ${round}`, endsAt, note),
        killAtRandom(endsAt),
      ]);
    }
    expect(isEnough(), `seed ${seed}`).toBe(true);

    const outcomes = [
      ...[...locks].map(([key, history]) =>
        checkByKey(mutexSpecification(skewMs, forgettableIn(history)), new Map([[key, relevantOf(history)]])),
      ),
      checkByKey(recordSpecification, records),
    ];
    const violations = outcomes.flatMap(({ violated }) =>
      [...violated].map(([key, verdict]) => describeVerdict(key, verdict as never)),
    );
    expect(violations, `seed ${seed}`).toEqual([]);
    // An undecided history proves nothing.
    expect(
      outcomes.flatMap(({ undecided }) => undecided),
      `seed ${seed}`,
    ).toEqual([]);
  });
});
