/** Runs stories with a client between a real service and a faulty network, and judges them. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { forEachAtMost } from '../../src/tools/pool.ts';
import { findings } from './checks.ts';
import { type Client, ClientProcess } from './client-process.ts';
import { FaultyProxy } from './proxy.ts';
import { type Scenario, type Story, scenarios } from './scenarios.ts';
import { keys } from './signature.ts';

const namespace = 'kit';
/** Each story waits most of its time. */
const atOnceMax = 4;

export interface Setting {
  /** The address of the service. */
  readonly url: string;
  readonly client: Client;
  /** A tree like this repository. By default this one. */
  readonly folder?: string;
  readonly seed?: number;
}

export interface Verdict {
  readonly scenario: string;
  /** What the client did wrong. Empty if nothing. */
  readonly found: readonly string[];
  /** What the client printed, for whoever has to find out why. */
  readonly printed: string;
  readonly requests: number;
}

const own = fileURLToPath(new URL('../..', import.meta.url));

/** Runs the stories, several at a time, and reports each when it is over. */
export async function judge(
  setting: Setting,
  chosen: readonly Scenario[] = scenarios,
  report: (verdict: Verdict) => void = () => {},
): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  await forEachAtMost(chosen, atOnceMax, async (scenario) => {
    const verdict = await tell(setting, scenario);
    report(verdict);
    verdicts.push(verdict);
  });
  return verdicts;
}

async function tell({ url, client, folder = own, seed = 1 }: Setting, scenario: Scenario): Promise<Verdict> {
  const proxy = new FaultyProxy(url);
  const env = {
    HOLDFAST_URL: await proxy.listen(),
    HOLDFAST_NAMESPACE: namespace,
    HOLDFAST_TOKEN: '',
    AWS_ACCESS_KEY_ID: keys.id,
    AWS_SECRET_ACCESS_KEY: keys.secret,
    AWS_SESSION_TOKEN: '',
    AWS_REGION: keys.region,
    AWS_DEFAULT_REGION: keys.region,
    ...scenario.env,
  };
  const running = new ClientProcess(client, folder, env);
  const found: string[] = [];
  const locks = new Map<string, string>();
  const story = storyOf({ url, running, proxy, found, locks, seed });
  await scenario.run(story);
  proxy.rule = () => undefined;
  await running.quit();
  await proxy.close();
  const seen = { exchanges: proxy.exchanges, lines: running.lines, printed: running.printed, locks };
  found.push(...findings(seen));
  return { scenario: scenario.name, found, printed: running.printed, requests: proxy.exchanges.length };
}

interface Parts {
  readonly url: string;
  readonly running: ClientProcess;
  readonly proxy: FaultyProxy;
  readonly found: string[];
  readonly locks: Map<string, string>;
  readonly seed: number;
}

function storyOf({ url, running, proxy, found, locks, seed }: Parts): Story {
  const run = randomUUID().slice(0, 8);
  const lock = (id: string): string => {
    const name = `${run}:${id}`;
    locks.set(id, name);
    return name;
  };
  const direct: Story['direct'] = async (method, path, body) => {
    const answer = await fetch(`${url}/v1/${namespace}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    return { status: answer.status, body: (await answer.json()) as object };
  };
  return {
    client: running,
    proxy,
    lock,
    direct,
    seed,
    acquire: (id, options) => running.send({ do: 'acquire', id, lock: lock(id), ...options }),
    hold: async (id) => {
      const leaseId = randomUUID();
      await direct('POST', `/locks/${lock(id)}/acquire`, { leaseId, leaseMs: 600_000 });
      return () => direct('POST', `/locks/${lock(id)}/release`, { leaseId });
    },
    expect: (isSo, otherwise) => {
      if (!isSo) found.push(otherwise);
    },
  };
}
