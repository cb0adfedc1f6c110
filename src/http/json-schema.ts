/**
 * The contract's schemas as JSON Schema that generators of clients can read. What a schema allows stays the same. Only
 * its form changes, where a form is correct and still makes a generator fail or write bad code.
 */
import * as z from 'zod';

export type Json = Record<string, unknown>;

const int32Max = 2 ** 31 - 1;

/** Schemas that stand in `components` and are referred to by name. */
export class Components {
  readonly schemas: Record<string, Json> = {};

  /** Keeps a schema under a name, and returns the reference to it. */
  refer(name: string, schema: Json): Json {
    const known = this.schemas[name];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(schema))
      throw new Error(`Two different schemas are called ${name}.`);
    this.schemas[name] = schema;
    return { $ref: `#/components/schemas/${name}` };
  }
}

/** `input` is what callers send, `output` what they get. */
export function jsonSchema(schema: z.ZodType, io: 'input' | 'output', components: Components): Json {
  const { $schema: _, ...made } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Json;
  return reform(made, { io, components });
}

interface Setting {
  readonly io: 'input' | 'output';
  readonly components: Components;
  /** The field that has this schema. */
  readonly field?: string;
}

function reform(schema: Json, setting: Setting): Json {
  const inner = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, innerOf(key, value, setting)]));
  return [
    // A new field in an answer must not break a client that was generated before.
    (made: Json) =>
      setting.io === 'output' && made.additionalProperties === false ? without(made, 'additionalProperties') : made,
    withFormat,
    enumOfOne,
    nullableType,
    withoutIdleNames,
    (made: Json) => discriminated(made, setting),
    (made: Json) => named(made, setting),
  ].reduce((made, step) => step(made), inner);
}

function innerOf(key: string, value: unknown, setting: Setting): unknown {
  if (key === 'properties') {
    return Object.fromEntries(
      Object.entries(value as Json).map(([field, schema]) => [field, reform(schema as Json, { ...setting, field })]),
    );
  }
  if (Array.isArray(value)) return value.map((each) => (isObject(each) ? reform(each, setting) : each));
  return isObject(value) && key !== 'default' ? reform(value, setting) : value;
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function without(schema: Json, ...keys: string[]): Json {
  return Object.fromEntries(Object.entries(schema).filter(([key]) => !keys.includes(key)));
}

/**
 * Without a format, Java, C# and 32-bit Go read an integer into 32 bits, and no fence fits there. A number that comes as
 * text in a query has a pattern, which means nothing for an integer. A date-time needs no pattern beside its format.
 */
function withFormat(schema: Json): Json {
  if (schema.format === 'date-time') return without(schema, 'pattern');
  if (schema.type !== 'integer') return schema;
  const { minimum, maximum, ...rest } = without(schema, 'pattern') as { minimum?: number; maximum?: number };
  const isSmall = maximum !== undefined && maximum <= int32Max;
  return {
    ...rest,
    format: isSmall ? 'int32' : 'int64',
    ...(minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? {} : { minimum }),
    ...(maximum === undefined ? {} : { maximum }),
  };
}

/** `const` is newer than many generators. An `enum` of one value means the same. */
function enumOfOne(schema: Json): Json {
  if (!('const' in schema)) return schema;
  const { const: only, ...rest } = schema;
  return { type: typeof only, ...rest, enum: [only] };
}

/** A value or null as one type with two names, which generators know as "nullable". */
function nullableType(schema: Json): Json {
  const { anyOf, ...rest } = schema as { anyOf?: readonly Json[] };
  if (anyOf?.length !== 2) return schema;
  const [value, nothing] = anyOf as [Json, Json];
  if (nothing.type !== 'null' || typeof value.type !== 'string') return schema;
  return { ...value, ...rest, type: [value.type, 'null'] };
}

/** Every name of a field is a string, so a schema that says no more than that can go. */
function withoutIdleNames(schema: Json): Json {
  return isObject(schema.propertyNames) && Object.keys(schema.propertyNames).join() === 'type'
    ? without(schema, 'propertyNames')
    : schema;
}

/** A schema with a title stands once, under this name, however many answers contain it. */
function named(schema: Json, { components }: Setting): Json {
  const { title, ...rest } = schema;
  return typeof title === 'string' ? components.refer(title, rest) : schema;
}

/** Alternatives that a field `type` tells apart: each gets a name, and a discriminator says which is which. */
function discriminated(schema: Json, { components, field = '' }: Setting): Json {
  const { oneOf, ...rest } = schema as { oneOf?: readonly Json[] };
  if (oneOf === undefined) return schema;
  const typeOf = (each: Json) =>
    (each.properties as { type?: { enum?: readonly string[] } } | undefined)?.type?.enum?.[0];
  const types = oneOf.map(typeOf);
  if (types.some((type) => type === undefined)) return schema;
  const refs = oneOf.map((each, index) => components.refer(nameOf(`${field}-${types[index]}`), each));
  const mapping = Object.fromEntries(refs.map(({ $ref }, index) => [types[index], $ref]));
  return { ...rest, oneOf: refs, discriminator: { propertyName: 'type', mapping } };
}

/** `notify-task-token` becomes `NotifyTaskToken`. */
export const nameOf = (words: string): string =>
  words.replace(/(?:^|[-_ ])([a-zA-Z])/g, (_, letter: string) => letter.toUpperCase());
