/** DynamoDB's typed values: their size, their order and their arithmetic. */
import { invalid } from './errors.ts';

export type Value =
  | { S: string }
  | { N: string }
  | { B: string }
  | { BOOL: boolean }
  | { NULL: true }
  | { L: Value[] }
  | { M: Record<string, Value> }
  | { SS: string[] }
  | { NS: string[] }
  | { BS: string[] };

export type Item = Record<string, Value>;

export const typeOf = (value: Value): string => Object.keys(value)[0] ?? '';
/** The content of a value, for callers that know its type. */
const contentOf = (value: Value): unknown => Object.values(value)[0];

/** DynamoDB stores two digits in a byte, one more byte for the exponent, and one for a sign. */
function numberBytes(text: string): number {
  const digits = text.replace(/^-?0*|\.|e.*$/gi, '').replace(/0+$/, '').length;
  return Math.ceil(digits / 2) + 1 + (text.startsWith('-') ? 1 : 0);
}

const utf8Bytes = (text: string): number => Buffer.byteLength(text);
const base64Bytes = (text: string): number => Buffer.from(text, 'base64').length;
const sumOf = <T>(values: readonly T[], bytesOf: (value: T) => number): number =>
  values.reduce((sum, value) => sum + bytesOf(value), 0);

/** The sizes of DynamoDB's documentation: a list or map costs three bytes, and each of its members one more. */
function valueBytes(value: Value): number {
  if ('S' in value) return utf8Bytes(value.S);
  if ('N' in value) return numberBytes(value.N);
  if ('B' in value) return base64Bytes(value.B);
  if ('L' in value) return 3 + sumOf(value.L, (member) => 1 + valueBytes(member));
  if ('M' in value)
    return 3 + sumOf(Object.entries(value.M), ([name, member]) => 1 + utf8Bytes(name) + valueBytes(member));
  if ('SS' in value) return sumOf(value.SS, utf8Bytes);
  if ('NS' in value) return sumOf(value.NS, numberBytes);
  if ('BS' in value) return sumOf(value.BS, base64Bytes);
  return 1;
}

export const itemBytes = (item: Item): number =>
  sumOf(Object.entries(item), ([name, value]) => utf8Bytes(name) + valueBytes(value));

/** Whole numbers of any length are exact, as in DynamoDB. Fractions are as exact as JavaScript's. */
export function addNumbers(one: string, other: string, sign: 1 | -1): string {
  const whole = /^-?\d+$/;
  if (whole.test(one) && whole.test(other)) return String(BigInt(one) + BigInt(sign) * BigInt(other));
  return String(Number(one) + sign * Number(other));
}

const compareNumbers = (one: string, other: string): number => Number(one) - Number(other);
/** DynamoDB orders text by its UTF-8 bytes. */
const compareTexts = (one: string, other: string): number =>
  one === other ? 0 : Buffer.compare(Buffer.from(one), Buffer.from(other));

/** Below zero, zero or above zero. Undefined if the two types differ or have no order. */
export function compare(one: Value, other: Value): number | undefined {
  if ('S' in one && 'S' in other) return compareTexts(one.S, other.S);
  if ('N' in one && 'N' in other) return compareNumbers(one.N, other.N);
  if ('B' in one && 'B' in other) return Buffer.compare(Buffer.from(one.B, 'base64'), Buffer.from(other.B, 'base64'));
  return undefined;
}

const sameMembers = (ones: readonly string[], others: readonly string[]): boolean =>
  ones.length === others.length && ones.every((member) => others.includes(member));

export function equals(one: Value, other: Value): boolean {
  if ('N' in one && 'N' in other) return one.N === other.N || Number(one.N) === Number(other.N);
  if ('L' in one && 'L' in other) {
    return one.L.length === other.L.length && one.L.every((member, index) => equals(member, other.L[index] as Value));
  }
  if ('M' in one && 'M' in other) return sameItem(one.M, other.M);
  if (typeOf(one) !== typeOf(other)) return false;
  const [ones, others] = [membersOf(one), membersOf(other)];
  return ones && others ? sameMembers(ones, others) : contentOf(one) === contentOf(other);
}

export function sameItem(one: Readonly<Item>, other: Readonly<Item>): boolean {
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && equals(one[name] as Value, other[name] as Value))
  );
}

export function copyOf(value: Value): Value {
  if ('L' in value) return { L: value.L.map(copyOf) };
  if ('M' in value)
    return { M: Object.fromEntries(Object.entries(value.M).map(([name, member]) => [name, copyOf(member)])) };
  if ('SS' in value) return { SS: [...value.SS] };
  if ('NS' in value) return { NS: [...value.NS] };
  if ('BS' in value) return { BS: [...value.BS] };
  return value;
}

/** A set has no equal members, and DynamoDB has no empty set. */
export type SetValue = { SS: string[] } | { NS: string[] } | { BS: string[] };

export function membersOf(value: Value): string[] | undefined {
  if ('SS' in value) return value.SS;
  if ('NS' in value) return value.NS;
  if ('BS' in value) return value.BS;
  return undefined;
}

/** Refuses a value that DynamoDB refuses. */
export function checkValue(value: Value): void {
  if ('L' in value) value.L.forEach(checkValue);
  else if ('M' in value) {
    if (Object.hasOwn(value.M, '')) throw invalid('One or more parameter values were invalid: Attribute name is empty');
    Object.values(value.M).forEach(checkValue);
  } else if ('N' in value && (value.N.trim() === '' || !Number.isFinite(Number(value.N)))) {
    throw invalid(`The parameter cannot be converted to a numeric value: ${value.N}`);
  }
  if (membersOf(value)?.length === 0) {
    throw invalid('One or more parameter values were invalid: An string set  may not be empty');
  }
}
