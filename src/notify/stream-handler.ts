/**
 * Stream records in, effects out. Records may come repeated, late, and in any order across locks. Each effect gets the whole batch and
 * returns the records that it could not do. Only those are reported to Lambda, which delivers the rest of the batch again. The same process
 * then does not repeat the effects that it has done.
 */

import type { DynamoDBBatchResponse, DynamoDBRecord, DynamoDBStreamEvent } from 'aws-lambda';
import { arrivalOf, type Watcher } from '../store/watchers.ts';
import { BoundedMap } from '../tools/collections.ts';
import { errorText } from '../tools/error-text.ts';
import type { Log } from '../tools/log.ts';
import { forEachAtMost } from '../tools/pool.ts';
import { type ChangeEvents, eventsOfChange, eventsOfPage } from './change-events.ts';
import { lockChangeOf, pageChangeOf } from './lock-change.ts';
import { type Meter, noMeter } from './ports.ts';

/** One record and its content: a change of a lock, or a watcher that connected. */
export interface StreamItem {
  readonly recordId: string;
  readonly sequenceNumber: string;
  readonly events?: ChangeEvents;
  readonly arrival?: Watcher;
}

export interface ChangeItem extends StreamItem {
  readonly events: ChangeEvents;
}

export const changesIn = (items: readonly StreamItem[]): ChangeItem[] =>
  items.filter((item): item is ChangeItem => item.events !== undefined);

export interface Effect {
  readonly name: string;
  /** Returns the items that it could not do. If it throws, it did none. */
  run(items: readonly StreamItem[]): Promise<readonly StreamItem[]>;
}

export type StreamHandler = (event: DynamoDBStreamEvent) => Promise<DynamoDBBatchResponse>;

/** Calls to the store and to AWS at the same time in one effect. A batch of 100 is done in a few rounds. */
export const atOnceMax = 20;
/** Effects that are remembered as done: those of a few batches, because Lambda repeats no more. */
const doneMax = 10_000;

export function createStreamHandler(effects: readonly Effect[], log: Log, meter: Meter = noMeter): StreamHandler {
  const doneEarlier = new BoundedMap<string, true>(doneMax);
  return async ({ Records }) => {
    const failed = new Set<string>();
    const read = Records.flatMap((record) => readRecord(record, log, failed));
    // A repeat within the batch would run at the same time as the first one, and neither would see the effect of the other.
    const items = [...new Map(read.map((item) => [item.recordId, item])).values()];
    const done: string[] = [];
    await Promise.all(
      effects.map(async (effect) => {
        const idOf = ({ recordId }: StreamItem) => `${effect.name} ${recordId}`;
        const todo = items.filter((item) => !doneEarlier.has(idOf(item)));
        const left = new Set(await run(effect, todo, log));
        for (const { sequenceNumber } of left) failed.add(sequenceNumber);
        done.push(...todo.filter((item) => !left.has(item)).map(idOf));
      }),
    );
    // After a failure Lambda delivers the whole rest of the batch again. Without one it repeats nothing.
    if (failed.size > 0) {
      for (const id of done) doneEarlier.set(id, true);
      // Lambda counts an answer that names failures as a success, so the function's error metric does not show it.
      meter.record([{ name: 'FailedBatches', unit: 'Count', value: 1 }]);
      meter.flush();
    }
    return { batchItemFailures: [...failed].map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

async function run(effect: Effect, todo: readonly StreamItem[], log: Log): Promise<readonly StreamItem[]> {
  if (todo.length === 0) return [];
  try {
    const left = await effect.run(todo);
    if (left.length > 0) log.warn('An effect failed for some records.', { effect: effect.name, records: left.length });
    return left;
  } catch (error) {
    log.error('An effect failed for the whole batch.', { effect: effect.name, error: errorText(error) });
    return todo;
  }
}

/** The events of the change in a record. Undefined if the record is about something else than a lock or its queue. */
export function changeEventsOf(record: DynamoDBRecord): ChangeEvents | undefined {
  // The deletion of an idle item by TTL is no event, because everything in it ended long ago.
  if (record.eventName === 'REMOVE') return undefined;
  const page = pageChangeOf(record);
  if (page !== undefined) return eventsOfPage(page);
  const change = lockChangeOf(record);
  return change && eventsOfChange(change);
}

/** A record that can't be read is reported alone. Retries don't help. The dead-letter queue keeps it. */
function readRecord(record: DynamoDBRecord, log: Log, failed: Set<string>): StreamItem[] {
  const sequenceNumber = record.dynamodb?.SequenceNumber ?? '';
  const recordId = record.eventID ?? sequenceNumber;
  try {
    const arrival = arrivalOf(record);
    if (arrival !== undefined) return [{ recordId, sequenceNumber, arrival }];
    const events = changeEventsOf(record);
    return events === undefined ? [] : [{ recordId, sequenceNumber, events }];
  } catch (error) {
    // Images contain lease ids, so the log has only the number of the record.
    log.error('A stream record could not be read.', { sequenceNumber, error: errorText(error) });
    failed.add(sequenceNumber);
    return [];
  }
}

/** Does the work for each item. If one fails, the others are still done. */
export async function eachItem<Item extends StreamItem>(
  log: Log,
  effect: string,
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<Item[]> {
  const left: Item[] = [];
  await forEachAtMost(items, atOnceMax, async (item) => {
    try {
      await work(item);
    } catch (error) {
      const { sequenceNumber } = item;
      log.warn('A record failed and is tried again.', { effect, sequenceNumber, error: errorText(error) });
      left.push(item);
    }
  });
  return left;
}
