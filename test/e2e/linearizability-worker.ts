/**
 * One client of the linearizability test. It takes locks and writes records over real HTTP, and notes each request and
 * its answer. It can also run in its own process, which a test can stop at any moment. Then each note is a line of its
 * output.
 */
import { randomUUID } from 'node:crypto';
import type {
  LockInput,
  LockOperation,
  LockOutput,
  RecordInput,
  RecordOperation,
  RecordOutput,
} from '../support/lock-histories.ts';
import { Chance } from '../world/chance.ts';

export type Note =
  | { readonly about: 'lock'; readonly key: string; readonly operation: LockOperation }
  | { readonly about: 'record'; readonly key: string; readonly operation: RecordOperation };

export const lockNames = ['lock-a', 'lock-b', 'lock-c'];
export const recordNames = ['record-a', 'record-b'];

/** More than the grace and a poll, and less than the time of the test. A try that takes longer counts as lost. */
const attemptMs = 6_000;

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: the answers are read field by field, as any client would.
  readonly body: any;
}

export class Worker {
  readonly #name: string;
  readonly #urls: readonly string[];
  readonly #chance: Chance;
  readonly #note: (note: Note) => void;

  constructor(options: { name: string; urls: readonly string[]; seed: number; note: (note: Note) => void }) {
    this.#name = options.name;
    this.#urls = options.urls;
    this.#chance = new Chance(options.seed);
    this.#note = options.note;
  }

  async runUntil(endsAt: number): Promise<void> {
    while (Date.now() < endsAt) {
      if (this.#chance.happens(0.6)) await this.#useLock(this.#chance.pick(lockNames));
      else await this.#useRecord(this.#chance.pick(recordNames));
      await pause(this.#chance.between(5, 60));
    }
  }

  async #useLock(name: string): Promise<void> {
    const leaseId = randomUUID();
    const leaseMs = this.#chance.pick([1_000, 1_500]);
    const waitMs = this.#chance.pick([0, 0, 800]);
    const acquired = await this.#lock(name, { kind: 'acquire', leaseId, leaseMs }, { leaseId, leaseMs, waitMs });
    if (acquired?.kind === 'refused') return;
    if (acquired?.kind === 'granted') {
      await pause(this.#chance.between(1, 60));
      if (this.#chance.happens(0.4)) await this.#lock(name, { kind: 'renew', leaseId }, { leaseId });
      // Some clients forget to release, and the lease expires.
      if (this.#chance.happens(0.1)) return;
    }
    await this.#lock(name, { kind: 'release', leaseId }, { leaseId });
    // A repeat, as a careful client sends it.
    if (this.#chance.happens(0.2)) await this.#lock(name, { kind: 'release', leaseId }, { leaseId });
  }

  /** Asks up to three times. Each try is a separate operation: the checker finds out whether a lost one took effect. */
  async #lock(name: string, input: LockInput, body: object): Promise<LockOutput | undefined> {
    for (let tries = 0; tries < 3; tries++) {
      const calledAt = Date.now();
      const answer = await this.#send('POST', `/v1/lin/locks/${name}/${input.kind}`, body);
      const output = answer === undefined ? undefined : lockOutput(input, answer);
      const operation = { process: this.#name, input, calledAt, ...answeredBy(output) };
      this.#note({ about: 'lock', key: name, operation });
      if (output !== undefined) return output;
      await pause(this.#chance.between(20, 200));
    }
    return undefined;
  }

  async #useRecord(key: string): Promise<void> {
    const found = await this.#record(key, { kind: 'get' });
    if (found === undefined) return;
    const writeId = randomUUID();
    const value = JSON.stringify(`${this.#name} ${writeId}`);
    if (found.kind === 'found' && this.#chance.happens(0.05))
      await this.#record(key, { kind: 'delete', expects: found.version, writeId });
    else
      await this.#record(key, {
        kind: 'put',
        value,
        expects: found.kind === 'found' ? found.version : 'absent',
        writeId,
      });
  }

  async #record(key: string, input: RecordInput): Promise<RecordOutput | undefined> {
    for (let tries = 0; tries < 3; tries++) {
      const calledAt = Date.now();
      const answer = await this.#send(methods[input.kind], `/v1/lin/records/${key}`, bodyOf(input), headersOf(input));
      const output = answer === undefined ? undefined : recordOutput(answer);
      const operation = { process: this.#name, input, calledAt, ...answeredBy(output) };
      this.#note({ about: 'record', key, operation });
      if (output !== undefined) return output;
      await pause(this.#chance.between(20, 200));
    }
    return undefined;
  }

  /** Undefined if no answer came. */
  async #send(
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Answer | undefined> {
    try {
      const response = await fetch(`${this.#chance.pick(this.#urls)}${path}`, {
        method,
        headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(attemptMs),
      });
      return { status: response.status, body: await response.json() };
    } catch {
      return undefined;
    }
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const methods = { get: 'GET', put: 'PUT', delete: 'DELETE' } as const;

const bodyOf = (input: RecordInput): object | undefined =>
  input.kind === 'put' ? { value: JSON.parse(input.value) as unknown } : undefined;

function headersOf(input: RecordInput): Record<string, string> {
  if (input.kind === 'get') return {};
  const expects = input.expects === 'absent' ? { 'if-none-match': '*' } : { 'if-match': `"${input.expects}"` };
  return { ...expects, 'write-id': input.writeId };
}

const answeredBy = <Output>(output: Output | undefined) =>
  output === undefined ? {} : { answer: { output, returnedAt: Date.now() } };

/** A 202 may still be granted, and a 5xx may have taken effect. So neither counts as an answer here. */
function lockOutput({ kind }: LockInput, { status, body }: Answer): LockOutput | undefined {
  if (status === 202 || status === 429 || status >= 500) return undefined;
  if (kind !== 'release') return status === 200 ? { kind: 'granted', fence: body.fence } : { kind: 'refused' };
  return status === 200 ? { kind: 'released', first: body.reason === 'ok' } : { kind: 'lost' };
}

function recordOutput({ status, body }: Answer): RecordOutput | undefined {
  if (status === 404) return { kind: 'none' };
  if (status === 412) return { kind: 'mismatch' };
  if (status !== 200 && status !== 201) return undefined;
  return body.value === undefined
    ? { kind: 'written', version: body.version }
    : { kind: 'found', value: JSON.stringify(body.value), version: body.version };
}

if (process.argv[1] === import.meta.filename) {
  const [name = '', urls = '', seed = '', endsAt = ''] = process.argv.slice(2);
  const note = (each: Note) => process.stdout.write(`${JSON.stringify(each)}\n`);
  await new Worker({ name, urls: urls.split(','), seed: Number(seed), note }).runUntil(Number(endsAt));
}
