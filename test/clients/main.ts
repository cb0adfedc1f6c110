/**
 * Certifies clients: `npm run clients -- [--client typescript] [--command 'my-driver'] [--planted] [--seed 1] [--rounds 1]`.
 * Fails if a client breaks a rule. With `--planted`, fails if the kit does not find a fault that was planted in a client.
 */
import { rm } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { defaultOptions } from '../../src/local/options.ts';
import { serve } from '../../src/local/serve.ts';
import { type Client, clientOf, clients } from './client-process.ts';
import { judge, type Verdict } from './kit.ts';
import { plant, planted } from './planted.ts';
import { hasPython, warnSkipped } from './python.ts';
import { scenarios } from './scenarios.ts';

const { values } = parseArgs({
  options: {
    client: { type: 'string' },
    command: { type: 'string' },
    scenario: { type: 'string' },
    planted: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '1' },
    verbose: { type: 'boolean', default: false },
  },
});

const silent = { info: () => {}, warn: () => {}, error: () => {} };
const service = await serve({ ...defaultOptions, port: 0, memory: true, engine: 'memory' }, silent);
let failures = 0;

function report(verdict: Verdict, replay: string): void {
  const { scenario, found, requests } = verdict;
  failures += found.length > 0 ? 1 : 0;
  console.log(`  ${found.length === 0 ? 'ok    ' : 'BROKEN'} ${scenario} (${requests} requests)`);
  for (const what of found) console.log(`         ${what}`);
  if (found.length > 0) console.log(`         replay: npm run clients -- ${replay} --scenario '${scenario}'`);
  if (values.verbose) console.log(verdict.printed);
}

function chosenClients(): readonly Client[] {
  if (values.command !== undefined) return [clientOf(values.command)];
  return clients.filter(({ name }) => {
    if (values.client !== undefined && name !== values.client) return false;
    if (name !== 'python' || hasPython) return true;
    warnSkipped('the kit does not run with the Python client.', 'apt-get install python3 (3.10 or newer)');
    return false;
  });
}

async function certify(client: Client): Promise<void> {
  const wanted = scenarios.filter(({ name }) => values.scenario === undefined || name === values.scenario);
  const first = Number(values.seed);
  for (let seed = first; seed < first + Number(values.rounds); seed++) {
    console.log(`${client.name}, seed ${seed}`);
    await judge({ url: service.url, client, seed }, wanted, (verdict) =>
      report(verdict, `--client ${client.name} --seed ${seed}`),
    );
  }
}

/** The kit itself is tested by faults in the clients. */
async function findPlanted(client: Client): Promise<void> {
  console.log(`${client.name}, with faults`);
  for (const one of planted.filter((each) => each.client === client.name)) {
    const folder = await plant(one);
    try {
      const wanted = scenarios.filter(({ name }) => name === one.scenario);
      const [verdict] = await judge({ url: service.url, client, folder }, wanted);
      const found = verdict?.found ?? [];
      failures += found.length === 0 ? 1 : 0;
      console.log(`  ${found.length > 0 ? 'found  ' : 'MISSED '} ${one.fault}: ${found[0] ?? one.scenario}`);
      if (values.verbose) console.log(verdict?.printed);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

try {
  for (const client of chosenClients()) await (values.planted ? findPlanted(client) : certify(client));
} finally {
  await service.stop();
}
console.log(failures === 0 ? 'Every client keeps the rules.' : `${failures} failed.`);
process.exitCode = failures === 0 ? 0 : 1;
