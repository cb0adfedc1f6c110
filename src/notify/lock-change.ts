import type { DynamoDBRecord } from 'aws-lambda';
import type { LockKey, LockState } from '../lock/state.ts';
import { fromLockItem, lockKeyOf, lockWords } from '../queue/lock-item.ts';
import { changedAtOf, fromPageItem, pageKeyOf } from '../queue/page-item.ts';
import type { Page } from '../queue/pages.ts';
import { imagesOf } from '../table/stream-images.ts';

/** A lock before and after one write, as the stream shows it. */
export interface LockChange {
  readonly key: LockKey;
  readonly before: LockState;
  readonly after: LockState;
}

/** The lock of a stream record. Undefined if the record is about something else. */
export function changedLock({ dynamodb }: DynamoDBRecord): LockKey | undefined {
  const { pk, sk } = dynamodb?.Keys ?? {};
  return pk?.S === undefined || sk?.S === undefined ? undefined : lockKeyOf({ pk: pk.S, sk: sk.S });
}

/** The revision in a stream record of a lock. The rest of the record is not read. */
export const revisionOf = ({ dynamodb }: DynamoDBRecord): number =>
  Number(dynamodb?.NewImage?.[lockWords.revision]?.N ?? 0);

/** When the write of a stream record of a lock was made, by its writer's clock. Undefined if the record is about something else. */
export function changedAtIn(record: DynamoDBRecord): number | undefined {
  const at = record.dynamodb?.NewImage?.[lockWords.changedAt]?.N;
  return changedLock(record) === undefined || at === undefined ? undefined : Number(at);
}

/** The change of a lock in a stream record. Undefined if the record is about something else. */
export function lockChangeOf(record: DynamoDBRecord): LockChange | undefined {
  const key = changedLock(record);
  if (key === undefined) return undefined;
  const images = imagesOf(record);
  return { key, before: fromLockItem(images.before), after: fromLockItem(images.after) };
}

/** A page of a lock's queue before and after one write. */
export interface PageChange {
  readonly key: LockKey;
  readonly before: Page;
  readonly after: Page;
  readonly at: number;
}

/** The change of a page in a stream record. Undefined if the record is about something else. */
export function pageChangeOf(record: DynamoDBRecord): PageChange | undefined {
  const { pk, sk } = record.dynamodb?.Keys ?? {};
  const page = pk?.S === undefined || sk?.S === undefined ? undefined : pageKeyOf({ pk: pk.S, sk: sk.S });
  if (page === undefined) return undefined;
  const images = imagesOf(record);
  return {
    key: page.lock,
    before: fromPageItem(page, images.before),
    after: fromPageItem(page, images.after),
    at: changedAtOf(images.after),
  };
}
