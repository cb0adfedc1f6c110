import type { _Record, AttributeValue } from '@aws-sdk/client-dynamodb-streams';
import type { DynamoDBRecord, AttributeValue as LambdaAttributeValue, StreamRecord } from 'aws-lambda';

/**
 * The Streams API and Lambda describe the same change in two formats. Lambda's format is JSON: bytes are base64, times
 * are epoch seconds, and `userIdentity` has names in camel case.
 */
export function toLambdaRecord(record: _Record, streamArn: string): DynamoDBRecord {
  const { ApproximateCreationDateTime: at, Keys, NewImage, OldImage, ...change } = record.dynamodb ?? {};
  return {
    ...(record.eventID !== undefined && { eventID: record.eventID }),
    ...(record.eventName !== undefined && { eventName: record.eventName }),
    eventVersion: record.eventVersion ?? '1.1',
    eventSource: record.eventSource ?? 'aws:dynamodb',
    awsRegion: record.awsRegion ?? regionOf(streamArn),
    dynamodb: {
      ...(change as Omit<StreamRecord, 'Keys'>),
      ...(at && { ApproximateCreationDateTime: Math.floor(at.getTime() / 1000) }),
      ...(Keys && { Keys: toLambdaImage(Keys) }),
      ...(NewImage && { NewImage: toLambdaImage(NewImage) }),
      ...(OldImage && { OldImage: toLambdaImage(OldImage) }),
    },
    eventSourceARN: streamArn,
    // Only this field shows whether the TTL or a caller deleted the item.
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
