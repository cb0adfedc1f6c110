import type { RecordWritten } from '../contract/views.ts';
import { backoffMs } from '../tools/backoff.ts';
import { callOf } from './calls.ts';
import { ask, type CallOptions, type Core, checkName } from './core.ts';
import { HoldfastError, TooManyRetriesError, VersionMismatchError } from './errors.ts';
import { elapsedMs, markNow, pause } from './runtime.ts';
import type { Call } from './transport.ts';

/** A record as it was read. */
export interface RecordView<T> extends RecordWritten {
  readonly value: T;
}

/** What a write replaces: one version, any version, or nothing. */
export type Expected = { readonly version: number } | 'present' | 'absent';

export interface WriteOptions extends CallOptions {
  /** The fence of the lock that guards the record. Required once the record has seen one. */
  readonly fence?: number | undefined;
}

export interface PutOptions extends WriteOptions {
  /**
   * After this time the record is absent, 1,000 to 31,536,000,000. Version and fence floor continue. Each write sets it
   * again. Without it the record has no end.
   */
  readonly expiresInMs?: number | undefined;
}

export interface UpdateOptions extends PutOptions {
  /** Tries before giving up, 10 by default: with random pauses, ten writers at once all succeed. */
  readonly triesMax?: number | undefined;
}

const triesMaxDefault = 10;
const backoffBaseMs = 20;
const backoffMsMax = 1_000;

/**
 * A JSON value with a version. A write says which version it replaces, and may carry the fence of the lock that guards the
 * record.
 *
 * @example
 * ```ts
 * const wallet = locks.record<{ balance: number }>('wallet:42');
 * await wallet.update((now) => ({ balance: (now?.balance ?? 0) + 5 }), { fence: lock.fence });
 * ```
 */
export class RecordHandle<T = unknown> {
  readonly key: string;
  readonly #core: Core;

  /** @internal */
  constructor(core: Core, key: string) {
    this.#core = core;
    this.key = checkName('record', key);
  }

  /**
   * Reads the record. Undefined if there is none.
   *
   * @example
   * ```ts
   * const found = await locks.record('wallet:42').get();
   * ```
   */
  async get(options: CallOptions = {}): Promise<RecordView<T> | undefined> {
    try {
      return await this.#send<RecordView<T>>(callOf('getRecord', 'GET /v1/{ns}/records/{key}', this.#at), options);
    } catch (error) {
      if (error instanceof HoldfastError && error.code === 'not-found') return undefined;
      throw error;
    }
  }

  /**
   * Writes the value if the record is as expected. Throws `VersionMismatchError` if it isn't, and `StaleFenceError` if a later
   * holder has written. Each write has an id, so a repetition after a lost answer is recognised.
   *
   * @example
   * ```ts
   * await locks.record('config').put({ retries: 3 }, 'absent');
   * ```
   */
  async put(value: T, expected: Expected, options: PutOptions = {}): Promise<RecordWritten> {
    const headers = this.#headersOf(expected, options);
    const body = { value, expiresInMs: options.expiresInMs };
    return this.#send(callOf('putRecord', 'PUT /v1/{ns}/records/{key}', this.#at, { headers, body }), options);
  }

  /**
   * Deletes the record if it is as expected. If it is created again, version and fence floor continue.
   *
   * @example
   * ```ts
   * await locks.record('config').delete({ version: 3 });
   * ```
   */
  async delete(expected: Exclude<Expected, 'absent'>, options: WriteOptions = {}): Promise<RecordWritten> {
    const headers = this.#headersOf(expected, options);
    return this.#send(callOf('deleteRecord', 'DELETE /v1/{ns}/records/{key}', this.#at, { headers }), options);
  }

  /**
   * Reads, computes and writes. If another writer came first, it begins again, so the function may run more than
   * once. It gets undefined if there is no record. Throws `TooManyRetriesError` after `triesMax` tries.
   *
   * @example
   * ```ts
   * const { value } = await locks.record<number>('hits').update((hits = 0) => hits + 1);
   * ```
   */
  async update(
    compute: (current: T | undefined) => T | Promise<T>,
    options: UpdateOptions = {},
  ): Promise<RecordView<T>> {
    const { runtime } = this.#core;
    const triesMax = options.triesMax ?? triesMaxDefault;
    const began = markNow(runtime);
    // The deadline is for all requests together, so each one gets the time that is left.
    const within = () =>
      options.deadlineMs === undefined
        ? options
        : { ...options, deadlineMs: Math.max(1, options.deadlineMs - elapsedMs(runtime, began)) };
    for (let tries = 1; ; tries++) {
      const current = await this.get(within());
      const value = await compute(current?.value);
      try {
        const expected = current === undefined ? 'absent' : { version: current.version };
        return { ...(await this.put(value, expected, within())), value };
      } catch (error) {
        if (!(error instanceof VersionMismatchError)) throw error;
        if (tries >= triesMax) {
          const message = `Others wrote to the record ${this.key} in between, ${tries} times in a row.`;
          throw new TooManyRetriesError(message, tries, { cause: error });
        }
        await pause(runtime, backoffMs(tries, backoffBaseMs, backoffMsMax, runtime.random), options.signal);
      }
    }
  }

  #headersOf(expected: Expected, { fence }: WriteOptions): Record<string, string> {
    return {
      ...(expected === 'absent' ? { 'if-none-match': '*' } : { 'if-match': tagOf(expected) }),
      'write-id': this.#core.runtime.newId(),
      ...(fence === undefined ? {} : { 'fence-token': String(fence) }),
    };
  }

  get #at() {
    return { ns: this.#core.namespace, key: this.key };
  }

  #send<Body = RecordWritten>(call: Call, options: CallOptions): Promise<Body> {
    return ask(this.#core, call, options);
  }
}

const tagOf = (expected: Exclude<Expected, 'absent'>) => (expected === 'present' ? '*' : `"${expected.version}"`);
