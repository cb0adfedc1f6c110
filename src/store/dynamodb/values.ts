/** Plain values in DynamoDB's own JSON, and back: what locks and sessions are made of, and nothing else. */
export type WireValue =
  | { S: string }
  | { N: string }
  | { BOOL: boolean }
  | { NULL: true }
  | { L: WireValue[] }
  | { M: Record<string, WireValue> }
  | { SS: string[] };

export function toWire(value: unknown): WireValue {
  switch (typeof value) {
    case 'string':
      return { S: value };
    case 'number':
      return { N: String(value) };
    case 'boolean':
      return { BOOL: value };
    case 'object':
      if (value === null) return { NULL: true };
      if (Array.isArray(value)) return { L: value.map(toWire) };
      if (value instanceof Set) return { SS: [...value] };
      return { M: toWireMap(value as Record<string, unknown>) };
    default:
      throw new TypeError(`A ${typeof value} can't be stored.`);
  }
}

/** What is undefined is left out, as JSON does. */
export function toWireMap(values: Readonly<Record<string, unknown>>): Record<string, WireValue> {
  const map: Record<string, WireValue> = {};
  for (const name in values) if (values[name] !== undefined) map[name] = toWire(values[name]);
  return map;
}

export function fromWire(value: WireValue): unknown {
  if ('S' in value) return value.S;
  if ('N' in value) return Number(value.N);
  if ('M' in value) return fromWireMap(value.M);
  if ('L' in value) return value.L.map(fromWire);
  if ('NULL' in value) return null;
  if ('BOOL' in value) return value.BOOL;
  if ('SS' in value) return new Set(value.SS);
  throw new TypeError(`A stored value is of a type that isn't used here: ${Object.keys(value).join()}.`);
}

export function fromWireMap(map: Readonly<Record<string, WireValue>>): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const name in map) values[name] = fromWire(map[name] as WireValue);
  return values;
}
