import type { _Record, AttributeValue } from '@aws-sdk/client-dynamodb-streams';
import type { DynamoDBRecord, AttributeValue as LambdaAttributeValue } from 'aws-lambda';

/**
 * The Streams API and Lambda describe the same change in two formats. Lambda's format is JSON: bytes are base64, times
 * are epoch seconds, and `userIdentity` has names in camel case.
 */
export function toLambdaRecord(record: _Record, streamArn: string): DynamoDBRecord {
  const change = record.dynamodb ?? {};
  return {
    ...(record.eventID !== undefined && { eventID: record.eventID }),
    ...(record.eventName !== undefined && { eventName: record.eventName }),
    eventVersion: record.eventVersion ?? '1.1',
    eventSource: record.eventSource ?? 'aws:dynamodb',
    awsRegion: record.awsRegion ?? regionOf(streamArn),
    dynamodb: {
      ...(change.ApproximateCreationDateTime && {
        ApproximateCreationDateTime: Math.floor(change.ApproximateCreationDateTime.getTime() / 1000),
      }),
      ...(change.Keys && { Keys: toLambdaImage(change.Keys) }),
      ...(change.NewImage && { NewImage: toLambdaImage(change.NewImage) }),
      ...(change.OldImage && { OldImage: toLambdaImage(change.OldImage) }),
      ...(change.SequenceNumber !== undefined && { SequenceNumber: change.SequenceNumber }),
      ...(change.SizeBytes !== undefined && { SizeBytes: change.SizeBytes }),
      ...(change.StreamViewType !== undefined && { StreamViewType: change.StreamViewType }),
    },
    eventSourceARN: streamArn,
    // Only this field tells a deletion by TTL from a deletion by a caller.
    ...(record.userIdentity && {
      userIdentity: { type: record.userIdentity.Type, principalId: record.userIdentity.PrincipalId },
    }),
  };
}

function regionOf(arn: string): string {
  return arn.split(':')[3] ?? '';
}

function toLambdaImage(image: Record<string, AttributeValue>): Record<string, LambdaAttributeValue> {
  return Object.fromEntries(Object.entries(image).map(([name, value]) => [name, toLambdaValue(value)]));
}

function toLambdaValue(value: AttributeValue): LambdaAttributeValue {
  if (value.B !== undefined) return { B: base64(value.B) };
  if (value.BS !== undefined) return { BS: value.BS.map(base64) };
  if (value.L !== undefined) return { L: value.L.map(toLambdaValue) };
  if (value.M !== undefined) return { M: toLambdaImage(value.M) };
  // DynamoDB Local leaves out the type of an empty map. Every other value has a type.
  if (Object.keys(value).length === 0) return { M: {} };
  // Strings, numbers, booleans, null and their sets are the same in both formats.
  return value as LambdaAttributeValue;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
