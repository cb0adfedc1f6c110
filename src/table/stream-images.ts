import type { DynamoDBRecord } from 'aws-lambda';
import type { Item } from './attributes.ts';
import { fromStored, type StoredItem } from './json.ts';

export interface Images {
  readonly before: Item | undefined;
  readonly after: Item | undefined;
}

const converted = new WeakMap<DynamoDBRecord, Images>();

/** The item before and after a write, in plain values. Each record is converted only once. */
export function imagesOf(record: DynamoDBRecord): Images {
  const known = converted.get(record);
  if (known !== undefined) return known;
  const { OldImage, NewImage } = record.dynamodb ?? {};
  const images = { before: plain(OldImage), after: plain(NewImage) };
  converted.set(record, images);
  return images;
}

/** An image is a map of values in DynamoDB's own JSON, whatever its type says. */
const plain = (image: object | undefined): Item | undefined =>
  image === undefined ? undefined : fromStored(image as StoredItem);
