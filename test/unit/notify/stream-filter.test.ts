import type { DynamoDBRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { passesStreamFilter, streamFilter } from '../../../src/notify/stream-filter.ts';

const recordOf = (sk: string): DynamoDBRecord => ({ dynamodb: { Keys: { pk: { S: 'test/lock/a' }, sk: { S: sk } } } });

describe('the stream filter', () => {
  it.each(['lock', 'watcher/abc='])('passes %s', (sk) => {
    expect(passesStreamFilter(recordOf(sk))).toBe(true);
  });

  it.each(['session', 'record', 'timer', 'connection', 'lock/x', '0001794836660898.0000000000000003.0001'])(
    'stops %s, so that what the notifier writes does not call it again',
    (sk) => {
      expect(passesStreamFilter(recordOf(sk))).toBe(false);
    },
  );

  it('stops a record without keys', () => {
    expect(passesStreamFilter({})).toBe(false);
  });

  it('is a pattern that Lambda accepts: lists of values and of prefixes', () => {
    expect(JSON.parse(JSON.stringify(streamFilter))).toEqual({
      dynamodb: { Keys: { sk: { S: ['lock', { prefix: 'watcher/' }] } } },
    });
  });
});
