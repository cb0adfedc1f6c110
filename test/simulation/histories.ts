import type { Answer, Call } from '../../src/client/transport.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { checkByKey, describeVerdict, type Operation } from '../support/linearizability.ts';
import {
  type LockInput,
  type LockOutput,
  mutexSpecification,
  type RecordInput,
  type RecordOutput,
  recordSpecification,
  relevantOf,
} from '../support/lock-histories.ts';
import type { LockWrite } from './table.ts';
import { plainLocks, recordKeys } from './traffic.ts';
import type { Verdicts } from './verdicts.ts';

type Mutable<Input, Output> = { -readonly [K in keyof Operation<Input, Output>]: Operation<Input, Output>[K] };

/** Every copy of every request about a plain lock or a record, with the answer that came back, if one did. */
export class Histories {
  readonly #now: () => number;
  readonly #locks = new Map<string, Mutable<LockInput, LockOutput>[]>();
  readonly #records = new Map<string, Mutable<RecordInput, RecordOutput>[]>();
  /** When the lock forgot each lease. No answer shows it, so it comes from the table itself. */
  readonly #forgottenAt = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  sent(client: string, call: Call): (answer: Answer) => void {
    const { name = '', key = '' } = call.parameters;
    if (plainLocks.includes(name)) return this.#open(this.#locks, name, client, lockInput(call), lockOutput);
    if (recordKeys.includes(key)) return this.#open(this.#records, key, client, recordInput(call), recordOutput);
    return () => {};
  }

  lockWritten({ stored }: LockWrite): void {
    if (stored.kind !== 'lock') return;
    const remembered = new Set(stored.after.ended.map(({ leaseId }) => leaseId));
    for (const { leaseId } of stored.before.ended)
      if (!remembered.has(leaseId) && !this.#forgottenAt.has(leaseId)) this.#forgottenAt.set(leaseId, this.#now());
  }

  check(verdicts: Verdicts, skewMs: number): void {
    const report = <Input, Output>({ violated, undecided }: ReturnType<typeof checkByKey<unknown, Input, Output>>) => {
      for (const [key, verdict] of violated) verdicts.breach('linearizable', describeVerdict(key, verdict));
      // A history that could not be decided proves nothing.
      for (const key of undecided) verdicts.breach('linearizable', `the history of ${key} could not be decided`);
    };
    const locks = new Map([...this.#locks].map(([name, history]) => [name, relevantOf(history)]));
    const isForgotten = (leaseId: string, by: number) =>
      (this.#forgottenAt.get(leaseId) ?? Number.POSITIVE_INFINITY) <= by;
    report(checkByKey(mutexSpecification(skewMs, isForgotten), locks));
    report(checkByKey(recordSpecification, this.#records));
    for (const history of [...this.#locks.values(), ...this.#records.values()])
      verdicts.count('operations checked', history.length);
  }

  #open<Input, Output>(
    histories: Map<string, Mutable<Input, Output>[]>,
    key: string,
    process: string,
    input: Input | undefined,
    outputOf: (call: Input, answer: Answer) => Output | undefined,
  ): (answer: Answer) => void {
    if (input === undefined) return () => {};
    const operation: Mutable<Input, Output> = { process, input, calledAt: this.#now() };
    histories.set(key, [...(histories.get(key) ?? []), operation]);
    return (answer) => {
      const output = outputOf(input, answer);
      if (output !== undefined) operation.answer = { output, returnedAt: this.#now() };
    };
  }
}

function lockInput({ operation, body }: Call): LockInput | undefined {
  const { leaseId = '', leaseMs } = (body ?? {}) as { leaseId?: string; leaseMs?: number };
  if (operation === 'acquireLock') return { kind: 'acquire', leaseId, leaseMs: leaseMs ?? lockLimits.leaseMsDefault };
  if (operation === 'renewLock') return { kind: 'renew', leaseId, leaseMs };
  return operation === 'releaseLock' ? { kind: 'release', leaseId } : undefined;
}

/**
 * Undefined if the answer does not say what happened. After a 202 the lock may still be granted. A request with a 503 may have
 * had its effect. A wait that ends with a lost lease may have been granted and released before its answer.
 */
function lockOutput({ kind }: LockInput, { status, body }: Answer): LockOutput | undefined {
  if (status === 202 || status >= 500 || status === 429) return undefined;
  const { fence, reason, code } = body as { fence: number; reason?: string; code?: string };
  if (kind === 'acquire' && code === 'lease-lost') return undefined;
  // If a place in a page was given up, the page remembers it, but the lock does not (decision 003). A late copy may be granted after that.
  if (kind === 'release' && reason === 'cancelled') return undefined;
  if (kind !== 'release') return status === 200 ? { kind: 'granted', fence } : { kind: 'refused' };
  return status === 200 ? { kind: 'released', first: reason === 'ok' } : { kind: 'lost' };
}

function recordInput({ operation, body, headers = {} }: Call): RecordInput | undefined {
  if (operation === 'getRecord') return { kind: 'get' };
  const { 'if-match': match, 'fence-token': token, 'write-id': writeId = '' } = headers;
  const fence = token === undefined ? undefined : Number(token);
  const expects = match === undefined ? 'absent' : match === '*' ? 'present' : Number(match.replaceAll('"', ''));
  if (operation === 'putRecord')
    return { kind: 'put', value: JSON.stringify((body as { value: unknown }).value), expects, fence, writeId };
  return expects === 'absent' ? undefined : { kind: 'delete', expects, fence, writeId };
}

function recordOutput(_input: RecordInput, { status, body }: Answer): RecordOutput | undefined {
  const { value, version } = (body ?? {}) as { value?: unknown; version: number };
  if (status === 404) return { kind: 'none' };
  if (status === 412) return { kind: 'mismatch' };
  if (status === 409 || status === 428) return { kind: 'stale' };
  if (status >= 429) return undefined;
  return value === undefined ? { kind: 'written', version } : { kind: 'found', value: JSON.stringify(value), version };
}
