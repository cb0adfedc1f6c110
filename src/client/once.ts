/**
 * A job that is done once, with a lock and a record of the same name.
 *
 *     look at the record ── done ──────────────────────────────────────────────► its result       1 request
 *          │ not done
 *     try the lock ── held ── wait as a reader, all at once ── look again ── done ──► its result
 *          │ granted                                            │ not done: the runner failed or died
 *          │◄──────────────────────────── wait for the lock ────┘
 *     mark the record as running, with the fence     From here on no earlier runner can complete: its fence is too low.
 *     work
 *     write the result, with the fence and an end
 *     release                                                                                       5 requests
 *
 * Only the service's clock counts. A run began at the time of its mark, and the record's answer says what time it is now.
 */
import { awaitTurn } from './acquire.ts';
import { type Core, checkName } from './core.ts';
import {
  HoldfastError,
  invalidField,
  LockHeldError,
  OnceFailedError,
  PayloadMismatchError,
  VersionMismatchError,
  WaitTimeoutError,
} from './errors.ts';
import type { HeldLock } from './held-lock.ts';
import { lockCalls } from './lease-calls.ts';
import { type AcquireOptions, type LeaseOptions, resolve, waitMsDefault } from './lock-options.ts';
import { type Expected, RecordHandle, type RecordView } from './record.ts';
import { elapsedMs, markNow } from './runtime.ts';

/** How a job is done once: with `everyMs`, once in each window of time; without it, once for its key. */
export interface OnceOptions extends Pick<LeaseOptions, 'leaseMs' | 'owner' | 'signal' | 'holdMsMax'> {
  /**
   * The length of a window, 1,000 to 31,536,000,000. At most one run completes in each window. Windows are counted from 1970 in
   * UTC by the service's clock: 86,400,000 is a day from midnight to midnight. A run belongs to the window in which it began.
   */
  readonly everyMs?: number | undefined;
  /** Moves the begin of the windows, 0 up to `everyMs`. A window should not begin at the time when the job is started. */
  readonly offsetMs?: number | undefined;
  /** How long the result of a key is kept, 86,400,000 by default, because senders of webhooks give up within a day. Not with `everyMs`. */
  readonly keepMs?: number | undefined;
  /** How long to wait for the result of another caller's run, 35,000 by default. With 0, it returns at once. */
  readonly waitMs?: number | undefined;
  /** With `close`, a run that failed is not done again, and later callers get `OnceFailedError`. By default the next caller does it. */
  readonly onFailure?: 'open' | 'close' | undefined;
  /** A digest of what the job is done with. If a result was kept with another one, a caller gets `PayloadMismatchError`. At most 100 characters. */
  readonly payload?: string | undefined;
}

/** The result of a job. The value has been JSON, so the runner and all others get the same. */
export type OnceResult<T> =
  /** This call did the work. */
  | { readonly ran: true; readonly done: true; readonly value: T }
  /** Another caller did the work. */
  | { readonly ran: false; readonly done: true; readonly value: T }
  /** Another caller was still doing the work when the wait was over. */
  | { readonly ran: false; readonly done: false; readonly value: undefined };

/** The value of the record. */
type Note =
  | { readonly once: 'running' }
  | (Ended & { readonly once: 'done'; readonly value?: unknown })
  | (Ended & { readonly once: 'failed'; readonly error: { name: string; message: string } });

interface Ended {
  readonly startedAt: number;
  readonly payload?: string;
}

interface Seen {
  readonly record: RecordView<Note> | undefined;
  /** By the service's clock. Known if the record has an end. The record of every completed run has one. */
  readonly now: number | undefined;
}

/** How the job's lock is taken. */
type Acquire = (name: string, options: AcquireOptions) => Promise<HeldLock>;

/** Lock and record have this prefix, so they differ from the user's own locks and records. */
const oncePrefix = 'once:';
const keepMsDefault = 86_400_000;
const spanMsMin = 1_000;
const spanMsMax = 31_536_000_000;
/** A record takes 256 KiB. This leaves space for the note around the result. */
const resultBytesMax = 255 * 1024;
/** An error is kept for people, and they read only its beginning. */
const errorLengthMax = 1_000;
/** A digest is shorter. The note around the result must stay small. */
const payloadLengthMax = 100;
/** The record is kept this long after its window, more than two clocks can differ. So if it is gone, the window is over by every clock. */
const outliveMs = 60_000;
/** A reader that dies must not delay the next run for long. */
const readerLeaseMs = 10_000;
/** While a holder has the lock, only a runner that lost it, or another program, can change the record. That happens once at most. */
const marksMax = 3;

/** Does the work once. See {@link Holdfast.once}. */
export async function runOnce<T>(
  core: Core,
  acquire: Acquire,
  key: string,
  options: OnceOptions,
  work: (lock: HeldLock) => T | Promise<T>,
): Promise<OnceResult<T>> {
  const { runtime, defaults } = core;
  const job = new Job<T>(core, acquire, key, checkSpans(options));
  const began = markNow(runtime);
  const waitMs = options.waitMs ?? defaults.waitMs ?? waitMsDefault;
  const leftMs = () => Math.max(0, Math.round(waitMs - elapsedMs(runtime, began)));

  let seen = await job.look();
  const known = job.resultOf(seen);
  if (known !== undefined) return known;

  let lock = await job.take(0);
  if (lock === undefined && leftMs() > 0) {
    const read = await job.waitAsReader(leftMs());
    if (read === undefined) return job.notDone(elapsedMs(runtime, began));
    if (read.result !== undefined) return read.result;
    seen = read.seen;
    lock = await job.take(leftMs());
  }
  return lock === undefined ? job.notDone(elapsedMs(runtime, began)) : job.runUnder(lock, seen, work);
}

const stillRunning = { ran: false, done: false, value: undefined } as const;

class Job<T> {
  readonly #core: Core;
  readonly #acquire: Acquire;
  readonly #name: string;
  readonly #options: OnceOptions;
  readonly #record: RecordHandle<Note>;

  constructor(core: Core, acquire: Acquire, key: string, options: OnceOptions) {
    this.#core = core;
    this.#acquire = acquire;
    this.#name = checkName('job', `${oncePrefix}${checkName('job', key)}`);
    this.#options = options;
    this.#record = new RecordHandle(core, this.#name);
  }

  /** Somebody else holds the lock. It may be at work, or it may have died a moment ago, so the caller's log should show this. */
  notDone(waitedMs: number): OnceResult<T> {
    this.#core.observe({ type: 'not-done', name: this.#name, waitedMs: Math.round(waitedMs) });
    return stillRunning;
  }

  async look(): Promise<Seen> {
    const record = await this.#record.get({ signal: this.#options.signal });
    if (record !== undefined && record.value?.once === undefined) {
      const message = `The record ${this.#name} was written by another program: it is not the note of a run.`;
      throw new HoldfastError('unexpected-answer', message);
    }
    const now = record?.expiresAt === undefined ? undefined : Date.parse(record.expiresAt) - (record.remainingMs ?? 0);
    return { record, now };
  }

  /** The result, if it is already known. Undefined if the work is still to be done. */
  resultOf({ record, now }: Seen): OnceResult<T> | undefined {
    const note = record?.value;
    if (note === undefined || note.once === 'running' || !this.#isCurrent(note.startedAt, now)) return undefined;
    const { payload } = this.#options;
    if (payload !== undefined && note.payload !== undefined && note.payload !== payload) {
      throw new PayloadMismatchError(`${this.#name} was done with another payload.`);
    }
    if (note.once === 'done') return { ran: false, done: true, value: note.value as T };
    throw new OnceFailedError(
      `${this.#name} has failed and is not done again: ${note.error.name}: ${note.error.message}`,
      { ...note.error, startedAt: new Date(note.startedAt).toISOString() },
    );
  }

  /** Undefined if somebody else held the lock all the time. */
  take(waitMs: number): Promise<HeldLock | undefined> {
    const { leaseMs, owner, signal, holdMsMax } = this.#options;
    // It never fails open: work without the lock could run twice.
    const wanted = { waitMs, leaseMs, owner, signal, holdMsMax, onUnavailable: 'fail-closed' as const };
    return unlessHeld(this.#acquire(this.#name, wanted));
  }

  /** The runner's release grants to all readers at once, so many callers get the result in one step and not one by one. */
  async waitAsReader(waitMs: number): Promise<{ seen: Seen; result: OnceResult<T> | undefined } | undefined> {
    const core = this.#core;
    const { owner, signal } = this.#options;
    const options = { mode: 'shared', leaseMs: readerLeaseMs, owner, onUnavailable: 'fail-closed' } as const;
    const calls = lockCalls(core, this.#name, options, resolve(core, options))(core.runtime.newId());
    const turn = await unlessHeld(awaitTurn(core, calls, { waitMs, signal }));
    if (turn === undefined) return undefined;
    const seen = await this.look();
    const result = this.resultOf(seen);
    // A caller that takes the lock next must first give up its own read lock. A caller with a result need not wait for that.
    if (result === undefined) await turn.givenBack;
    return { seen, result };
  }

  async runUnder(lock: HeldLock, seen: Seen, work: (lock: HeldLock) => T | Promise<T>): Promise<OnceResult<T>> {
    try {
      const marked = await this.#mark(lock, seen);
      return 'result' in marked ? marked.result : await this.#complete(lock, marked, work);
    } finally {
      // If the release fails, the lease ends by itself, and the work is still done.
      await lock.release().catch(() => undefined);
    }
  }

  /**
   * Writes that a run begins, if the record has not changed since it was read. If it has, another run completed in between.
   * The write raises the record's floor, so a runner that lost the lock is refused from now on.
   */
  async #mark(lock: HeldLock, before: Seen): Promise<Mark | { readonly result: OnceResult<T> }> {
    let seen = before;
    for (let marks = 1; ; marks++) {
      const expected: Expected = seen.record === undefined ? 'absent' : { version: seen.record.version };
      try {
        const { version, updatedAt } = await this.#record.put({ once: 'running' }, expected, { fence: lock.fence });
        // The clocks of two hosts may differ. The later time counts, so a run never belongs to the window of the run before.
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
        // The caller must see the error of the work, even if the note can't be written.
        await this.#note(lock, mark, { once: 'failed', startedAt, error: describe(error) }).catch(() => undefined);
      }
      throw error;
    }
    const text = await this.#textOf(lock, mark, value);
    const kept = text === undefined ? undefined : (JSON.parse(text) as T);
    await this.#note(lock, mark, { once: 'done', startedAt, ...(kept === undefined ? {} : { value: kept }) });
    return { ran: true, done: true, value: kept as T };
  }

  /** The result as JSON. If it can't be kept, the job is closed as failed: the work is done, and doing it again would not help. */
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

  #note({ fence }: HeldLock, { version, startedAt }: Mark, note: Exclude<Note, { once: 'running' }>): Promise<unknown> {
    const { payload } = this.#options;
    const kept: Note = payload === undefined ? note : { ...note, payload };
    return this.#record.put(kept, { version }, { fence, expiresInMs: this.#keptMs(startedAt) });
  }

  /** The time from the begin of the run until after its window. The record counts it from the completion, so it is never too short. */
  #keptMs(startedAt: number): number {
    const { everyMs, keepMs = keepMsDefault } = this.#options;
    if (everyMs === undefined) return keepMs;
    return Math.min(spanMsMax, Math.max(spanMsMin, this.#windowEnd(startedAt, everyMs) - startedAt + outliveMs));
  }

  /** True if a run that began then belongs to the current window. */
  #isCurrent(startedAt: number, now: number | undefined): boolean {
    const { everyMs } = this.#options;
    return everyMs === undefined || now === undefined || this.#windowEnd(startedAt, everyMs) > now;
  }

  #windowEnd(at: number, everyMs: number): number {
    const { offsetMs = 0 } = this.#options;
    return (Math.floor((at - offsetMs) / everyMs) + 1) * everyMs + offsetMs;
  }
}

/** If somebody else holds the lock, that is no error here. */
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
  const check = (field: string, given: number | undefined, min: number, max: number) => {
    if (given === undefined || (Number.isInteger(given) && given >= min && given <= max)) return;
    throw invalidField(field, `must be a whole number from ${min} to ${max}, got ${given}`);
  };
  if (options.payload !== undefined && options.payload.length > payloadLengthMax)
    throw invalidField('payload', `must have at most ${payloadLengthMax} characters: give a digest`);
  check('everyMs', everyMs, spanMsMin, spanMsMax);
  check('keepMs', keepMs, spanMsMin, spanMsMax);
  if (everyMs !== undefined && keepMs !== undefined)
    throw invalidField('keepMs', 'is not allowed with everyMs: the window keeps it');
  if (everyMs === undefined && offsetMs !== undefined) throw invalidField('offsetMs', 'needs everyMs');
  check('offsetMs', offsetMs, 0, (everyMs ?? 1) - 1);
  return options;
}
