/** An attribute in DynamoDB's JSON. */
export interface WireValue {
  readonly S?: string;
  readonly N?: string;
  readonly B?: string;
  readonly BOOL?: boolean;
  readonly NULL?: boolean;
  readonly L?: readonly WireValue[];
  readonly M?: WireItem;
  readonly SS?: readonly string[];
  readonly NS?: readonly string[];
}

export type WireItem = Readonly<Record<string, WireValue>>;

/** The largest item that DynamoDB accepts. */
export const itemBytesMax = 400 * 1_024;

/**
 * The size that DynamoDB bills and limits: names and values in UTF-8, numbers by their digits, three bytes for each
 * list and map.
 */
export const itemBytes = (item: WireItem): number =>
  Object.entries(item).reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + valueBytes(value), 0);

function valueBytes(value: WireValue): number {
  if (value.S !== undefined) return Buffer.byteLength(value.S);
  if (value.N !== undefined) return numberBytes(value.N);
  if (value.B !== undefined) return Buffer.from(value.B, 'base64').length;
  if (value.L !== undefined) return value.L.reduce((sum, each) => sum + 1 + valueBytes(each), 3);
  if (value.M !== undefined) return Object.keys(value.M).length + 3 + itemBytes(value.M);
  if (value.SS !== undefined) return value.SS.reduce((sum, each) => sum + Buffer.byteLength(each), 0);
  if (value.NS !== undefined) return value.NS.reduce((sum, each) => sum + numberBytes(each), 0);
  return 1;
}

/** Two digits in a byte, without zeros at either end, and one more byte. A minus sign needs another one. */
function numberBytes(number: string): number {
  const digits = number.replace(/^-/, '').replace('.', '').replace(/^0+/, '').replace(/0+$/, '');
  return Math.ceil(digits.length / 2) + 1 + (number.startsWith('-') ? 1 : 0);
}

/** A write is billed per kilobyte of the larger item, before or after it, even if its condition failed. */
export const writeUnits = (bytes: number): number => Math.max(1, Math.ceil(bytes / 1_024));

/** A consistent read is billed per four kilobytes. One that may be stale costs half. */
export const readUnits = (bytes: number, consistent: boolean): number =>
  Math.max(1, Math.ceil(bytes / 4_096)) / (consistent ? 1 : 2);
