import type { DynamoDBRecord } from 'aws-lambda';
import type { Page } from '../lock/pages.ts';
import type { LockState } from '../lock/state.ts';
import { fromLockItem, lockKeyOf, lockWords } from '../store/dynamodb/lock-item.ts';
import { changedAtOf, fromPageItem, pageKeyOf } from '../store/dynamodb/page-item.ts';
import { imagesOf } from '../store/dynamodb/stream-images.ts';
import type { LockKey } from '../store/lock-store.ts';

/** A lock before and after one write, as the stream shows it. */
export interface LockChange {
  readonly key: LockKey;
  readonly before: LockState;
  readonly after: LockState;
}

/** The lock that a stream record is about; undefined if it is about something else. */
export function changedLock({ dynamodb }: DynamoDBRecord): LockKey | undefined {
  const { pk, sk } = dynamodb?.Keys ?? {};
  return pk?.S === undefined || sk?.S === undefined ? undefined : lockKeyOf({ pk: pk.S, sk: sk.S });
}

/** The revision that a lock's record shows, without reading the rest of it. */
export const revisionOf = ({ dynamodb }: DynamoDBRecord): number =>
  Number(dynamodb?.NewImage?.[lockWords.revision]?.N ?? 0);

/** What a stream record says about a lock; undefined if it is about something else. */
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

/** What a stream record says about a page; undefined if it is about something else. */
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
