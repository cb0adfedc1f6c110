import { callOf } from '../../client/calls.ts';
import { isHoldfastError } from '../../client/index.ts';
import { errorOf } from '../../client/problem.ts';
import type { Answer } from '../../client/transport.ts';
import { version } from '../../process/version.ts';
import type { Command } from '../command.ts';
import type { Connection } from '../connection.ts';
import { formatMs } from '../duration.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';

/** Five samples show whether the service is slow or only one answer was. On a healthy service they take no time. */
const samples = 5;
const answerWithinMs = 10_000;
const connectWithinMs = 5_000;
/** The Date header has whole seconds, so a difference under two seconds means nothing. */
const skewMsKnown = 2_000;
/** AWS refuses a signature that is older than this. */
const skewMsMax = 300_000;
/** A slower service could not renew a short lease several times in time. */
const latencyMsMax = 1_000;

const marks = { ok: ['✔', 'green'], warn: ['!', 'yellow'], fail: ['✘', 'red'] } as const;

interface Finding {
  readonly check: string;
  readonly status: keyof typeof marks;
  readonly detail: string;
  /** The exit code of the program if this check failed. */
  readonly exitCode?: number;
}

interface Sample {
  readonly answer: Answer;
  readonly tookMs: number;
  /** The service's clock minus ours, as exactly as the Date header shows it. */
  readonly skewMs: number | undefined;
}

export const doctor: Command = {
  name: 'doctor',
  summary: 'Check the connection to the service: address, credentials, clock, latency, version, watching.',
  details: 'Changes nothing. Exits with 0 if no check fails; warnings do not count.',
  examples: ['holdfast doctor', 'holdfast doctor --url https://abc.execute-api.eu-west-1.amazonaws.com --sigv4'],
  async run({ terminal, connection }) {
    const findings: Finding[] = [];
    for await (const finding of examine(connection())) {
      findings.push(finding);
      if (terminal.json) continue;
      const [mark, color] = marks[finding.status];
      terminal.print(`${terminal.styled(color, mark)} ${finding.check.padEnd(11)}  ${finding.detail}`);
    }
    const failed = findings.find(({ status }) => status === 'fail');
    if (terminal.json) terminal.printJson({ ok: failed === undefined, checks: findings });
    return failed?.exitCode ?? exitCodes.ok;
  },
};

async function* examine(connection: Connection): AsyncGenerator<Finding> {
  const { url } = connection;
  const taken: Sample[] = [];
  try {
    for (let i = 0; i < samples; i++) taken.push(await sample(connection));
  } catch (error) {
    const cause = (error as Error).cause instanceof Error ? `: ${((error as Error).cause as Error).message}` : '';
    const detail = `${url} can't be reached (${(error as Error).message}${cause})`;
    yield { check: 'endpoint', status: 'fail', detail, exitCode: exitCodes.unavailable };
    return;
  }
  yield endpoint(url, taken);
  yield latency(taken);
  yield clock(taken);
  yield await credentials(connection);
  yield versions(taken);
  yield await watching(connection);
}

async function sample({ transport }: Connection): Promise<Sample> {
  const sentAtMs = Date.now();
  const beganMs = performance.now();
  const call = callOf('health', 'GET /v1/health', {});
  const answer = await transport.request(call, AbortSignal.timeout(answerWithinMs));
  const tookMs = performance.now() - beganMs;
  const date = Date.parse(answer.headers.date ?? '');
  // The header is cut to whole seconds: on average the true time is 500 ms later. We assume that the service wrote it
  // half-way between request and answer.
  return { answer, tookMs, skewMs: Number.isNaN(date) ? undefined : date + 500 - (sentAtMs + tookMs / 2) };
}

function endpoint(url: string, taken: readonly Sample[]): Finding {
  const bad = taken.find(({ answer }) => answer.status !== 200)?.answer;
  if (bad === undefined) return { check: 'endpoint', status: 'ok', detail: `${url} is healthy` };
  if (bad.status === 401 || bad.status === 403) {
    return { check: 'endpoint', status: 'warn', detail: `${url} answers ${bad.status} to the health check` };
  }
  const detail = `${url} answers ${bad.status}: ${errorOf(bad).message}`;
  return { check: 'endpoint', status: 'fail', detail, exitCode: exitCodes.unavailable };
}

function latency(taken: readonly Sample[]): Finding {
  const sorted = taken.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
  const [least = 0, median = 0, most = 0] = [sorted[0], sorted[Math.floor(sorted.length / 2)], sorted.at(-1)];
  const detail = `${formatMs(least)} to ${formatMs(most)}, median ${formatMs(median)} of ${taken.length} requests`;
  return { check: 'latency', status: median > latencyMsMax ? 'warn' : 'ok', detail };
}

function clock(taken: readonly Sample[]): Finding {
  const known = taken.map(({ skewMs }) => skewMs).filter((skewMs) => skewMs !== undefined);
  if (known.length === 0) return { check: 'clock', status: 'warn', detail: 'the service sends no Date header' };
  const skewMs = known.sort((a, b) => Math.abs(a) - Math.abs(b))[0] ?? 0;
  if (Math.abs(skewMs) < skewMsKnown)
    return { check: 'clock', status: 'ok', detail: "agrees with the service's clock" };
  const detail = `is ${formatMs(Math.abs(skewMs))} ${skewMs > 0 ? 'behind' : 'ahead of'} the service's clock`;
  // Only the service's clock counts for leases, so a wrong clock here costs no lock. It only breaks signatures.
  const consequence = Math.abs(skewMs) > skewMsMax ? 'AWS refuses such signatures' : 'locks do not depend on it';
  return { check: 'clock', status: 'warn', detail: `${detail}; ${consequence}` };
}

/** Looks at a lock that nobody uses. The check is about the right to look, not about the lock. */
async function credentials({ service, namespace }: Connection): Promise<Finding> {
  const check = 'credentials';
  try {
    await service.inspect('holdfast-doctor');
    return { check, status: 'ok', detail: `may look into the namespace ${namespace}` };
  } catch (error) {
    const exitCode = isHoldfastError(error) ? exitCodeOf(error.code) : exitCodes.internal;
    return { check, status: 'fail', detail: `namespace ${namespace}: ${(error as Error).message}`, exitCode };
  }
}

function versions(taken: readonly Sample[]): Finding {
  const theirs = (taken[0]?.answer.body as { version?: unknown } | undefined)?.version;
  if (typeof theirs !== 'string')
    return { check: 'version', status: 'warn', detail: `ours is ${version}, the service's is not known` };
  const same = theirs.split('.')[0] === version.split('.')[0];
  const detail = `service ${theirs}, command line ${version}`;
  return { check: 'version', status: same ? 'ok' : 'warn', detail };
}

async function watching({ service }: Connection): Promise<Finding> {
  const check = 'watching';
  const signal = AbortSignal.timeout(connectWithinMs);
  for await (const event of service.watch({ lock: 'holdfast-doctor', signal })) {
    if (event.type === 'connected') return { check, status: 'ok', detail: 'the WebSocket connects' };
  }
  const detail = `the WebSocket did not connect within ${formatMs(connectWithinMs)}; if a proxy stands in between, set HOLDFAST_WATCH_URL`;
  return { check, status: 'warn', detail };
}
