/**
 * Which stream records concern the notifier: locks, and watchers that connect. The notifier writes history and notes to the same
 * table. Without this filter its own writes would call it again, for ever.
 *
 * The stack gives the pattern to the event source mapping. The local pump and the tests apply the same pattern themselves.
 */
import type { DynamoDBRecord } from 'aws-lambda';
import { watcherSortPrefix } from '../store/dynamodb/table.ts';

/** A value that fits as it is, or the beginning of one. */
type Match = string | { readonly prefix: string };

const sortKeys: readonly Match[] = ['lock', { prefix: watcherSortPrefix }];

/** In the language of Lambda's event filtering. */
export const streamFilter = { dynamodb: { Keys: { sk: { S: sortKeys } } } };

/** Whether Lambda would hand this record to the notifier. */
export function passesStreamFilter({ dynamodb }: DynamoDBRecord): boolean {
  const sortKey = dynamodb?.Keys?.sk?.S;
  if (sortKey === undefined) return false;
  return sortKeys.some((match) => (typeof match === 'string' ? sortKey === match : sortKey.startsWith(match.prefix)));
}
