/** Values in DynamoDB's own JSON, as far as our items use them, and the plain values that the code above works with. */

export type StoredValue =
  | { readonly S: string }
  | { readonly N: string }
  | { readonly BOOL: boolean }
  | { readonly NULL: true }
  | { readonly L: readonly StoredValue[] }
  | { readonly M: StoredItem }
  | { readonly SS: readonly string[] };

export type StoredItem = Readonly<Record<string, StoredValue>>;

function toStoredValue(value: unknown): StoredValue {
  switch (typeof value) {
    case 'string':
      return { S: value };
    case 'number':
      return { N: String(value) };
    case 'boolean':
      return { BOOL: value };
    case 'object':
      if (value === null) return { NULL: true };
      if (Array.isArray(value)) return { L: value.map(toStoredValue) };
      if (value instanceof Set) return { SS: [...value] };
      return { M: toStored(value as Record<string, unknown>) };
    default:
      throw new TypeError(`A ${typeof value} can't be stored.`);
  }
}

/** Undefined values are left out, as in JSON. */
export function toStored(values: Readonly<Record<string, unknown>>): StoredItem {
  const stored: Record<string, StoredValue> = {};
  for (const name in values) if (values[name] !== undefined) stored[name] = toStoredValue(values[name]);
  return stored;
}

function fromStoredValue(value: StoredValue): unknown {
  if ('S' in value) return value.S;
  if ('N' in value) return Number(value.N);
  if ('M' in value) return fromStored(value.M);
  if ('L' in value) return value.L.map(fromStoredValue);
  if ('NULL' in value) return null;
  if ('BOOL' in value) return value.BOOL;
  if ('SS' in value) return new Set(value.SS);
  throw new TypeError(`A stored value is of a type that isn't used here: ${Object.keys(value).join()}.`);
}

export function fromStored(stored: StoredItem): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const name in stored) values[name] = fromStoredValue(stored[name] as StoredValue);
  return values;
}
