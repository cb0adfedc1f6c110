/**
 * Which stream records the notifier gets, and which the publisher. Both write to the same table. Without a filter, their own writes would
 * call them again, for ever.
 *
 * The stack gives the patterns to the event source mappings. The local pump and the tests apply the same patterns by `passesFilter`.
 */
import type { DynamoDBRecord } from 'aws-lambda';
import { pageSortKey, parkedName } from '../queue/page-item.ts';
import { tableShape, watcherSortPrefix } from '../table/shape.ts';

/** The part of Lambda's filter language that is used here. `exists` works on leaves only, such as the `S` of an attribute. */
type Rule = string | { readonly prefix: string } | { readonly exists: true };
interface Pattern {
  readonly [field: string]: Pattern | readonly Rule[];
}

/** A record passes if one of the patterns fits. Lambda takes up to five. */
export type StreamFilter = readonly Pattern[];

const aLock: readonly Rule[] = ['lock'];
/** A lock that has waiters has this attribute, for the reaper's index. It stays for up to a minute after the last waiter left. */
const isAwaited = { [tableShape.indexes.awaited.partitionKey]: { S: [{ exists: true }] } } as const;

/**
 * Locks that have waiters, or had them until this change. Only these have waiters to notify or need a timer. So a lock without waiters never
 * calls the notifier.
 */
export const notifierFilter: StreamFilter = [
  // A page with parked waiters: their deadlines need timers, and the ends of their waits are delivered.
  { dynamodb: { Keys: { sk: { S: [pageSortKey] } }, NewImage: { [parkedName]: { S: [{ exists: true }] } } } },
  { dynamodb: { Keys: { sk: { S: aLock } }, NewImage: isAwaited } },
  { dynamodb: { Keys: { sk: { S: aLock } }, OldImage: isAwaited } },
];

/** Every change of a lock and of the pages of its queue, and watchers that connect. */
export const publisherFilter: StreamFilter = [
  { dynamodb: { Keys: { sk: { S: [...aLock, pageSortKey, { prefix: watcherSortPrefix }] } } } },
];

/** True if Lambda would pass this record to a function with this filter. */
export const passesFilter = (record: DynamoDBRecord, filter: StreamFilter): boolean =>
  filter.some((pattern) => fits(pattern, record));

function fits(pattern: Pattern, value: unknown): boolean {
  return Object.entries(pattern).every(([field, expected]) => {
    const found = (value as Record<string, unknown> | undefined)?.[field];
    return isRules(expected) ? expected.some((rule) => fitsRule(rule, found)) : fits(expected, found);
  });
}

const isRules = (expected: Pattern | readonly Rule[]): expected is readonly Rule[] => Array.isArray(expected);

function fitsRule(rule: Rule, found: unknown): boolean {
  if (typeof found !== 'string') return false;
  if (typeof rule === 'string') return found === rule;
  return 'exists' in rule || found.startsWith(rule.prefix);
}
