import type { DynamoDBRecord } from 'aws-lambda';
import type { Item } from './attributes.ts';
import { fromWireMap, type WireValue } from './wire.ts';

export interface Images {
  readonly before: Item | undefined;
  readonly after: Item | undefined;
}

const converted = new WeakMap<DynamoDBRecord, Images>();

/** The item before and after a write, in plain values. A record is converted once, however many ask for it. */
export function imagesOf(record: DynamoDBRecord): Images {
  const known = converted.get(record);
  if (known !== undefined) return known;
  const { OldImage, NewImage } = record.dynamodb ?? {};
  const images = { before: plain(OldImage), after: plain(NewImage) };
  converted.set(record, images);
  return images;
}

/** The stream's types say more than what is on the wire: attribute values in DynamoDB's own JSON. */
const plain = (image: object | undefined): Item | undefined =>
  image === undefined ? undefined : fromWireMap(image as Record<string, WireValue>);
