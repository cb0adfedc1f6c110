import type { _Record } from '@aws-sdk/client-dynamodb-streams';
import { describe, expect, it } from 'vitest';
import { toLambdaRecord } from '../../../src/local/pump/event.ts';

const streamArn = 'arn:aws:dynamodb:eu-west-1:123456789012:table/holdfast/stream/2026-01-01T00:00:00.000';

describe('toLambdaRecord', () => {
  it('formats a change as Lambda does, survives JSON, and leaves out missing fields', () => {
    const record: _Record = {
      eventID: 'e1',
      eventName: 'INSERT',
      eventVersion: '1.2',
      eventSource: 'aws:other',
      awsRegion: 'eu-west-1',
      dynamodb: {
        ApproximateCreationDateTime: new Date(1_700_000_000_999),
        Keys: { pk: { S: 'ns/a' } },
        NewImage: {
          pk: { S: 'ns/a' },
          bytes: { B: Uint8Array.of(0, 1, 2, 250).subarray(1) },
          sets: { BS: [Uint8Array.of(255)] },
          deep: { M: { list: { L: [{ N: '1' }, { BOOL: false }, { NULL: true }, { B: Uint8Array.of(7) }] } } },
          words: { SS: ['x'] },
          numbers: { NS: ['1.5'] },
        },
        SequenceNumber: '000000000000000000001',
        SizeBytes: 42,
        StreamViewType: 'NEW_AND_OLD_IMAGES',
      },
    };
    const event = toLambdaRecord(record, streamArn);
    expect(JSON.parse(JSON.stringify(event))).toEqual(event);
    expect(event).toStrictEqual({
      eventID: 'e1',
      eventName: 'INSERT',
      eventVersion: '1.2',
      eventSource: 'aws:other',
      awsRegion: 'eu-west-1',
      eventSourceARN: streamArn,
      dynamodb: {
        ApproximateCreationDateTime: 1_700_000_000,
        Keys: { pk: { S: 'ns/a' } },
        NewImage: {
          pk: { S: 'ns/a' },
          bytes: { B: 'AQL6' },
          sets: { BS: ['/w=='] },
          deep: { M: { list: { L: [{ N: '1' }, { BOOL: false }, { NULL: true }, { B: 'Bw==' }] } } },
          words: { SS: ['x'] },
          numbers: { NS: ['1.5'] },
        },
        SequenceNumber: '000000000000000000001',
        SizeBytes: 42,
        StreamViewType: 'NEW_AND_OLD_IMAGES',
      },
    });
  });

  it('spells out an empty map whose type the stream left out, as DynamoDB Local does', () => {
    const NewImage = { bare: {}, inside: { M: { bare: {} } }, list: { L: [] } } as never;
    const record = toLambdaRecord({ dynamodb: { NewImage } }, 'arn:aws:dynamodb:us-east-1:0:table/t/stream/1');
    expect(record.dynamodb?.NewImage).toEqual({ bare: { M: {} }, inside: { M: { bare: { M: {} } } }, list: { L: [] } });
  });

  it('marks a deletion by TTL, and takes the region from the stream if a record has none', () => {
    const event = toLambdaRecord(
      {
        eventName: 'REMOVE',
        userIdentity: { Type: 'Service', PrincipalId: 'dynamodb.amazonaws.com' },
        dynamodb: { OldImage: { pk: { S: 'ns/a' } } },
      },
      streamArn,
    );
    expect(event.userIdentity).toEqual({ type: 'Service', principalId: 'dynamodb.amazonaws.com' });
    expect(event.awsRegion).toBe('eu-west-1');
    expect(event).toMatchObject({ eventVersion: '1.1', eventSource: 'aws:dynamodb' });
    expect(Object.keys(event)).not.toContain('eventID');
    expect(Object.keys(toLambdaRecord({}, streamArn))).not.toContain('eventName');
    expect(event.dynamodb).toStrictEqual({ OldImage: { pk: { S: 'ns/a' } } });
  });
});
