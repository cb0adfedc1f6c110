import { fromStored, type StoredItem, toStored } from '../../src/table/json.ts';
import type { TablePort } from '../../src/table/port.ts';

// biome-ignore lint/suspicious/noExplicitAny: each operation has its own shape.
export type PlainRequest = any;

const itemFields = new Set([
  'Key',
  'Item',
  'Attributes',
  'ExpressionAttributeValues',
  'ExclusiveStartKey',
  'LastEvaluatedKey',
]);

/** Converts every item in a request or an answer, at any depth. */
const converting =
  (convert: (item: never) => unknown) =>
  (value: unknown): unknown => {
    const go = converting(convert);
    if (Array.isArray(value)) return value.map(go);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => {
        if (itemFields.has(name) && member !== undefined) return [name, convert(member as never)];
        if (name === 'Keys' || name === 'Items') return [name, (member as never[]).map(convert)];
        if (name === 'Responses') {
          const tables = Object.entries(member as Record<string, never[]>);
          return [name, Object.fromEntries(tables.map(([table, items]) => [table, items.map(convert)]))];
        }
        return [name, go(member)];
      }),
    );
  };

const toPlain = converting((item: StoredItem) => fromStored(item));
const fromPlain = converting((item: Record<string, unknown>) => toStored(item));

/** A table that a test plays itself: requests and answers have plain values. */
export const plainTable = (answer: (request: PlainRequest, operation: string) => unknown): TablePort => ({
  call: async (operation, request) => fromPlain(await answer(toPlain(request), operation)) as never,
});
