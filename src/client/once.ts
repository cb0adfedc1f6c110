/**
 * A job that is done once, by a lock and a record of the same name.
 *
 *     look at the record ── done ──────────────────────────────────────────────► its result       1 request
 *          │ not done
 *     try the lock ── held ── wait as a reader, all at once ── look again ── done ──► its result
 *          │ granted                                            │ not done: its runner failed or died
 *          │◄──────────────────────────── wait for the lock ────┘
 *     mark the record as running, with the fence     From here on no earlier runner can complete: its fence is too low.
 *     work
 *     write the result, with the fence and an end
 *     release                                                                                       5 requests
 *
 * Time is the service's alone: when a run began is the time of its mark, and what time it is now comes with the record.
 */
import { awaitTurn } from './acquire.ts';
import { lockClaim } from './claims.ts';
import { type Core, checkName } from './core.ts';
import {
  HoldfastError,
  InvalidRequestError,
  LockHeldError,
  OnceFailedError,
  VersionMismatchError,
  WaitTimeoutError,
} from './errors.ts';
import type { HeldLock } from './held-lock.ts';
import { type AcquireOptions, type LeaseOptions, resolve, waitMsDefault } from './lock-options.ts';
import type { Expected, RecordHandle, RecordView } from './record.ts';
import { elapsedMs, markNow } from './runtime.ts';

/** How a job is done once. With `everyMs` once in each window of time, without it once for its key. */
export interface OnceOptions extends Pick<LeaseOptions, 'leaseMs' | 'owner' | 'signal' | 'holdMsMax'> {
  /**
   * At most one completed run in each window of so long, 1,000 to 31,536,000,000. Windows are counted from 1970 in UTC by the service's
   * clock: 86,400,000 is a day from midnight to midnight. A run belongs to the window in which it began.
   */
  readonly everyMs?: number | undefined;
  /** Moves where windows begin, 0 up to `everyMs`: keep that away from the time at which the job is started. */
  readonly offsetMs?: number | undefined;
  /** How long a key's result is kept, 86,400,000 by default: senders of webhooks give up within a day. Not with `everyMs`. */
  readonly keepMs?: number | undefined;
  /** How long to wait for the result of a run under way, 35,000 by default. 0 returns at once. */
  readonly waitMs?: number | undefined;
  /** `close`: a run that failed is not done again, and later callers get `OnceFailedError`. By default it is open for the next. */
  readonly onFailure?: 'open' | 'close' | undefined;
}

/** What became of a job. The value is what JSON makes of the work's result, for the runner as for everybody else. */
export type OnceResult<T> =
  /** This call did the work. */
  | { readonly ran: true; readonly done: true; readonly value: T }
  /** Another one has done it. */
  | { readonly ran: false; readonly done: true; readonly value: T }
  /** Another one was still at it when the wait was over. */
  | { readonly ran: false; readonly done: false; readonly value: undefined };

/** What the record holds. */
type Note =
  | { readonly once: 'running' }
  | { readonly once: 'done'; readonly startedAt: number; readonly value?: unknown }
  | { readonly once: 'failed'; readonly startedAt: number; readonly error: { name: string; message: string } };

interface Seen {
  readonly record: RecordView<Note> | undefined;
  /** By the service's clock. Known if the record has an end, which every completed one has. */
  readonly now: number | undefined;
}

export interface OnceParts {
  readonly core: Core;
  acquire(name: string, options: AcquireOptions): Promise<HeldLock>;
  record(key: string): RecordHandle<Note>;
}

/** Lock and record have this before the key, so that they differ from the user's own locks and records. */
export const oncePrefix = 'once:';
const keepMsDefault = 86_400_000;
const spanMsMin = 1_000;
const spanMsMax = 31_536_000_000;
/** A record holds 256 KiB; this leaves room for the note around the result. */
const resultBytesMax = 255 * 1024;
/** An error is kept for people, who read its beginning. */
const errorLengthMax = 1_000;
/** The record outlives its window by more than two clocks can differ, so where it is absent the window is over by every clock. */
const outliveMs = 60_000;
/** A reader that dies must not hold up the next run for long. */
const readerLeaseMs = 10_000;
/** Only a runner that lost its lock, or a stranger, can change the record under a holder: it happens once, if ever. */
const marksMax = 3;

/** Does the work once. See {@link Holdfast.once}. */
export async function runOnce<T>(
  parts: OnceParts,
  key: string,
  options: OnceOptions,
  work: (lock: HeldLock) => T | Promise<T>,
): Promise<OnceResult<T>> {
  const { runtime, defaults } = parts.core;
  const job = new Job<T>(parts, key, checkSpans(options));
  const began = markNow(runtime);
  const waitMs = options.waitMs ?? defaults.waitMs ?? waitMsDefault;
  const leftMs = () => Math.max(0, Math.round(waitMs - elapsedMs(runtime, began)));

  let seen = await job.look();
  const known = job.resultOf(seen);
  if (known !== undefined) return known;

  let lock = await job.take(0);
  if (lock === undefined && leftMs() > 0) {
    const read = await job.waitAsReader(leftMs());
    if (read === undefined) return stillRunning;
    if (read.result !== undefined) return read.result;
    seen = read.seen;
    lock = await job.take(leftMs());
  }
  return lock === undefined ? stillRunning : job.runUnder(lock, seen, work);
}

const stillRunning = { ran: false, done: false, value: undefined } as const;

class Job<T> {
  readonly #parts: OnceParts;
  readonly #name: string;
  readonly #options: OnceOptions;
  readonly #record: RecordHandle<Note>;

  constructor(parts: OnceParts, key: string, options: OnceOptions) {
    this.#parts = parts;
    this.#name = checkName('job', `${oncePrefix}${checkName('job', key)}`);
    this.#options = options;
    this.#record = parts.record(this.#name);
  }

  async look(): Promise<Seen> {
    const record = await this.#record.get({ signal: this.#options.signal });
    if (record !== undefined && record.value?.once === undefined) {
      const message = `The record ${this.#name} was written by somebody else: it does not tell of a run.`;
      throw new HoldfastError('unexpected-answer', message);
    }
    const now = record?.expiresAt === undefined ? undefined : Date.parse(record.expiresAt) - (record.remainingMs ?? 0);
    return { record, now };
  }

  /** What is already known; undefined if the work is still to be done. */
  resultOf({ record, now }: Seen): OnceResult<T> | undefined {
    const note = record?.value;
    if (note === undefined || note.once === 'running' || !this.#isCurrent(note.startedAt, now)) return undefined;
    if (note.once === 'done') return { ran: false, done: true, value: note.value as T };
    throw new OnceFailedError(
      `${this.#name} has failed and is not done again: ${note.error.name}: ${note.error.message}`,
      { ...note.error, startedAt: new Date(note.startedAt).toISOString() },
    );
  }

  /** Undefined if somebody else held it for all of the time. */
  take(waitMs: number): Promise<HeldLock | undefined> {
    const { leaseMs, owner, signal, holdMsMax } = this.#options;
    // Never open: work that runs without the lock could not be told from work that ran twice.
    const wanted = { waitMs, leaseMs, owner, signal, holdMsMax, onUnavailable: 'fail-closed' as const };
    return unlessHeld(this.#parts.acquire(this.#name, wanted));
  }

  /** The runner's release lets all readers in at once, so that a crowd has its result in one step instead of one by one. */
  async waitAsReader(waitMs: number): Promise<{ seen: Seen; result: OnceResult<T> | undefined } | undefined> {
    const { core } = this.#parts;
    const { owner, signal } = this.#options;
    const options = { mode: 'shared', leaseMs: readerLeaseMs, owner, onUnavailable: 'fail-closed' } as const;
    const claim = lockClaim(core, this.#name, options, resolve(core, options, undefined))(core.runtime.newId());
    const turn = await unlessHeld(awaitTurn(core, claim, { waitMs, signal }));
    if (turn === undefined) return undefined;
    const seen = await this.look();
    const result = this.resultOf(seen);
    // A caller that goes on to take the lock must not stand in its own way. A caller with a result need not wait.
    if (result === undefined) await turn.givenBack;
    return { seen, result };
  }

  async runUnder(lock: HeldLock, seen: Seen, work: (lock: HeldLock) => T | Promise<T>): Promise<OnceResult<T>> {
    try {
      const marked = await this.#mark(lock, seen);
      return 'result' in marked ? marked.result : await this.#complete(lock, marked, work);
    } finally {
      // A lock that can't be given back ends by itself, and what was done is done.
      await lock.release().catch(() => undefined);
    }
  }

  /**
   * Writes that a run begins, where nothing has changed since the look: else somebody completed in between. It raises the record's
   * floor, so a runner that lost the lock and wakes late is refused from now on.
   */
  async #mark(lock: HeldLock, before: Seen): Promise<Mark | { readonly result: OnceResult<T> }> {
    let seen = before;
    for (let marks = 1; ; marks++) {
      const expected: Expected = seen.record === undefined ? 'absent' : { version: seen.record.version };
      try {
        const { version, updatedAt } = await this.#record.put({ once: 'running' }, expected, { fence: lock.fence });
        // Of two hosts' clocks the later one counts, so that a run never falls back into the window of the run before.
        return { version, startedAt: Math.max(Date.parse(updatedAt), seen.now ?? 0) };
      } catch (error) {
        if (!(error instanceof VersionMismatchError) || marks >= marksMax) throw error;
        seen = await this.look();
        const result = this.resultOf(seen);
        if (result !== undefined) return { result };
      }
    }
  }

  async #complete(lock: HeldLock, mark: Mark, work: (lock: HeldLock) => T | Promise<T>): Promise<OnceResult<T>> {
    const { startedAt } = mark;
    let value: T;
    try {
      value = await work(lock);
    } catch (error) {
      if (this.#options.onFailure === 'close') {
        // The work's own error is what the caller must see, whatever becomes of the note.
        await this.#note(lock, mark, { once: 'failed', startedAt, error: describe(error) }).catch(() => undefined);
      }
      throw error;
    }
    const text = await this.#textOf(lock, mark, value);
    const kept = text === undefined ? undefined : (JSON.parse(text) as T);
    await this.#note(lock, mark, { once: 'done', startedAt, ...(kept === undefined ? {} : { value: kept }) });
    return { ran: true, done: true, value: kept as T };
  }

  /** The result as JSON. The work is done, so one that can't be kept closes the job: to do the work again would not mend it. */
  async #textOf(lock: HeldLock, mark: Mark, value: T): Promise<string | undefined> {
    try {
      const text = JSON.stringify(value) as string | undefined;
      const bytes = new TextEncoder().encode(text ?? '').length;
      if (bytes <= resultBytesMax) return text;
      const message = `The work is done, but its result has ${bytes} bytes as JSON, and ${resultBytesMax} can be kept.`;
      throw new HoldfastError('too-large', message);
    } catch (error) {
      const { startedAt } = mark;
      await this.#note(lock, mark, { once: 'failed', startedAt, error: describe(error) });
      throw error;
    }
  }

  #note({ fence }: HeldLock, { version, startedAt }: Mark, note: Note): Promise<unknown> {
    return this.#record.put(note, { version }, { fence, expiresInMs: this.#keptMs(startedAt) });
  }

  /** From the run's begin to beyond its window; counted from the completion, which is later, it is never too short. */
  #keptMs(startedAt: number): number {
    const { everyMs, keepMs = keepMsDefault } = this.#options;
    if (everyMs === undefined) return keepMs;
    return Math.min(spanMsMax, Math.max(spanMsMin, this.#windowEnd(startedAt, everyMs) - startedAt + outliveMs));
  }

  /** Whether a run that began then still counts. */
  #isCurrent(startedAt: number, now: number | undefined): boolean {
    const { everyMs } = this.#options;
    return everyMs === undefined || now === undefined || this.#windowEnd(startedAt, everyMs) > now;
  }

  #windowEnd(at: number, everyMs: number): number {
    const { offsetMs = 0 } = this.#options;
    return (Math.floor((at - offsetMs) / everyMs) + 1) * everyMs + offsetMs;
  }
}

/** A lock that somebody else holds is no error here. */
async function unlessHeld<H>(taking: Promise<H>): Promise<H | undefined> {
  try {
    return await taking;
  } catch (error) {
    if (error instanceof LockHeldError || error instanceof WaitTimeoutError) return undefined;
    throw error;
  }
}

interface Mark {
  readonly version: number;
  readonly startedAt: number;
}

function describe(error: unknown): { name: string; message: string } {
  const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) };
  return { name: name.slice(0, errorLengthMax), message: message.slice(0, errorLengthMax) };
}

function checkSpans(options: OnceOptions): OnceOptions {
  const { everyMs, keepMs, offsetMs } = options;
  const refuse = (field: string, message: string) => {
    throw new InvalidRequestError(`${field} ${message}.`, [{ field, message }]);
  };
  const check = (field: string, given: number | undefined, min: number, max: number) => {
    if (given === undefined || (Number.isInteger(given) && given >= min && given <= max)) return;
    refuse(field, `must be a whole number from ${min} to ${max}, got ${given}`);
  };
  check('everyMs', everyMs, spanMsMin, spanMsMax);
  check('keepMs', keepMs, spanMsMin, spanMsMax);
  if (everyMs !== undefined && keepMs !== undefined)
    refuse('keepMs', 'is not allowed with everyMs: the window keeps it');
  if (everyMs === undefined && offsetMs !== undefined) refuse('offsetMs', 'needs everyMs');
  check('offsetMs', offsetMs, 0, (everyMs ?? 1) - 1);
  return options;
}
