import { randomBytes } from 'node:crypto';
import type { Delete, Put, RecordAnswer } from '../record/commands.ts';
import { decide, howWritten } from '../record/decide.ts';
import type { RecordState } from '../record/state.ts';
import type { RecordKey, RecordStore } from '../store/records.ts';
import { type Clock, type EpochMs, systemClock } from '../time/clock.ts';

/** What the use cases of records work with. */
export interface RecordContext {
  readonly store: RecordStore;
  readonly clock: Clock;
  readonly newWriteId: () => string;
}

/** A record context with random ids. */
export const systemRecordContext = (store: RecordStore, clock: Clock = systemClock): RecordContext => ({
  store,
  clock,
  newWriteId: () => randomBytes(16).toString('base64url'),
});

/** A write whose id the caller may leave to the service. */
type Unnamed<Command> = Omit<Command, 'writeId'> & { readonly writeId?: string };

/** A record, and the instant of the look at it. Both together say whether the record has ended. */
export interface RecordAt {
  readonly state: RecordState;
  readonly now: EpochMs;
}

export interface RecordOutcome extends RecordAt {
  readonly answer: RecordAnswer;
}

/** The stored record. One consistent read. */
export async function readRecord({ store, clock }: RecordContext, key: RecordKey): Promise<RecordAt> {
  const state = await store.read(key);
  return { state, now: clock.now() };
}

/**
 * Writes or deletes in one conditional write. If it is refused, the state that refused it says why.
 *
 * Every write has an id, even if its caller gave none. If a response is lost, the store's client repeats the request, and the id shows
 * that it is a repetition.
 */
export async function writeRecord(
  context: RecordContext,
  key: RecordKey,
  wanted: Unnamed<Put> | Unnamed<Delete>,
): Promise<RecordOutcome> {
  const command = { ...wanted, writeId: wanted.writeId ?? context.newWriteId() };
  const now = context.clock.now();
  const { applied, state } = await context.store.attempt(key, command, now);
  if (applied) return { answer: { kind: 'written', how: howWritten(command), version: state.version }, state, now };
  const { next, answer } = decide(state, command, now);
  // The store and the rules must agree. If they don't, the answer must not say that something was written.
  if (next !== state) throw new Error('The store refused a write that the rules allow.');
  // A repetition gets the version that it made, even if others have written since.
  return { answer, state: answer.kind === 'written' ? { ...state, version: answer.version } : state, now };
}
