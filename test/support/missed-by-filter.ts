import type { DynamoDBRecord } from 'aws-lambda';
import { eventsOfChange } from '../../src/notify/change-events.ts';
import { lockChangeOf } from '../../src/notify/lock-change.ts';
import { notifierFilter, passesFilter } from '../../src/notify/stream-filter.ts';

/** Records that the notifier needs, but that its filter would drop. There must be none. */
export const missedByFilter = (records: readonly DynamoDBRecord[]): DynamoDBRecord[] =>
  records.filter((record) => !passesFilter(record, notifierFilter) && hasWork(record));

function hasWork(record: DynamoDBRecord): boolean {
  try {
    const change = record.eventName === 'REMOVE' ? undefined : lockChangeOf(record);
    if (change === undefined) return false;
    const { grants, endedWaits } = eventsOfChange(change);
    return grants.length + endedWaits.length + change.after.queue.length > 0;
  } catch {
    // A record that can't be read needs no work.
    return false;
  }
}
