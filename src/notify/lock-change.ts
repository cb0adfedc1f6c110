import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { DynamoDBRecord } from 'aws-lambda';
import { type LockState, unusedLock } from '../lock/state.ts';
import { type ItemKey, lockKeyOf } from '../store/dynamodb/keys.ts';
import { fromLockItem } from '../store/dynamodb/lock-item.ts';
import type { LockKey } from '../store/lock-store.ts';

/** A lock before and after one write, as the stream shows it. */
export interface LockChange {
  readonly key: LockKey;
  readonly before: LockState;
  readonly after: LockState;
}

type Image = Record<string, AttributeValue>;

/** What a stream record says about a lock; undefined where it is about something else. */
export function lockChangeOf(record: DynamoDBRecord): LockChange | undefined {
  const { Keys, OldImage, NewImage } = record.dynamodb ?? {};
  if (Keys === undefined) return undefined;
  const key = lockKeyOf(unmarshall(Keys as Image) as ItemKey);
  if (key === undefined) return undefined;
  const stateOf = (image: Image | undefined): LockState =>
    image === undefined ? unusedLock : fromLockItem(unmarshall(withEmptyMaps({ M: image }).M ?? {}));
  return { key, before: stateOf(OldImage as Image | undefined), after: stateOf(NewImage as Image | undefined) };
}

/** DynamoDB Local leaves the type of an empty map out of its stream; nothing else is ever without one. */
function withEmptyMaps(value: AttributeValue): AttributeValue {
  if (value.L !== undefined) return { L: value.L.map(withEmptyMaps) };
  if (value.M === undefined) return Object.keys(value).length === 0 ? { M: {} } : value;
  return { M: Object.fromEntries(Object.entries(value.M).map(([name, inner]) => [name, withEmptyMaps(inner)])) };
}
