/** DynamoDB's typed values: their types, their size and their order. */
import { invalid } from './errors.ts';

/**
 * Values are immutable: an update shares the unchanged parts of the old item with the new one, and requests, answers, old
 * images and stream records share them too. So neither the engine nor a caller changes a value that it gave or got.
 */
export type Value =
  | { readonly S: string }
  | { readonly N: string }
  | { readonly B: string }
  | { readonly BOOL: boolean }
  | { readonly NULL: true }
  | { readonly L: readonly Value[] }
  | { readonly M: Item }
  | SetValue;

/** A set has no equal members, and DynamoDB has no empty set. */
export type SetValue =
  | { readonly SS: readonly string[] }
  | { readonly NS: readonly string[] }
  | { readonly BS: readonly string[] };

export type Item = { readonly [name: string]: Value };

export const typeOf = (value: Value): string => {
  for (const type in value) return type;
  return '';
};

/** The content of a value, for callers that know its type. */
const contentOf = (value: Value): unknown => (value as Record<string, unknown>)[typeOf(value)];

/** The member of an item or map. Undefined for names that every object inherits, such as `toString`. */
export const memberOf = (item: Item, name: string): Value | undefined =>
  Object.hasOwn(item, name) ? item[name] : undefined;

/** DynamoDB stores two digits in a byte, one more byte for the exponent, and one for a sign. */
function numberBytes(text: string): number {
  let digits = 0;
  let zeros = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x45 || code === 0x65) break;
    if (code === 0x30) {
      if (digits > 0) zeros += 1;
    } else if (code > 0x30 && code <= 0x39) {
      digits += zeros + 1;
      zeros = 0;
    }
  }
  return Math.ceil(digits / 2) + 1 + (text.startsWith('-') ? 1 : 0);
}

const utf8Bytes = (text: string): number => Buffer.byteLength(text);
const base64Bytes = (text: string): number => Buffer.byteLength(text, 'base64');

function sumOf<T>(values: readonly T[], bytesOf: (value: T) => number): number {
  let sum = 0;
  for (const value of values) sum += bytesOf(value);
  return sum;
}

/** The sizes of DynamoDB's documentation: a list or map costs three bytes, and each of its members one more. */
function valueBytes(value: Value): number {
  if ('S' in value) return utf8Bytes(value.S);
  if ('N' in value) return numberBytes(value.N);
  if ('M' in value) return 3 + membersBytes(value.M, 1);
  if ('L' in value) return 3 + value.L.length + sumOf(value.L, valueBytes);
  if ('SS' in value) return sumOf(value.SS, utf8Bytes);
  if ('B' in value) return base64Bytes(value.B);
  if ('NS' in value) return sumOf(value.NS, numberBytes);
  if ('BS' in value) return sumOf(value.BS, base64Bytes);
  return 1;
}

function membersBytes(item: Item, more: number): number {
  let sum = 0;
  for (const name of Object.keys(item)) sum += more + utf8Bytes(name) + valueBytes(item[name] as Value);
  return sum;
}

/** Items never change, so each is measured once. */
const measured = new WeakMap<Item, number>();

export function itemBytes(item: Item): number {
  let bytes = measured.get(item);
  if (bytes === undefined) {
    bytes = membersBytes(item, 0);
    measured.set(item, bytes);
  }
  return bytes;
}

/** Whole numbers of any length are exact, as in DynamoDB. Fractions are as exact as JavaScript's. */
export function addNumbers(one: string, other: string, sign: 1 | -1): string {
  const sum = Number(one) + sign * Number(other);
  if (Number.isSafeInteger(sum) && Number.isSafeInteger(Number(one)) && Number.isSafeInteger(Number(other)))
    return String(sum);
  const whole = /^-?\d+$/;
  if (whole.test(one) && whole.test(other)) return String(BigInt(one) + BigInt(sign) * BigInt(other));
  return String(sum);
}

const compareNumbers = (one: string, other: string): number => Number(one) - Number(other);

const isSurrogate = (code: number): boolean => (code & 0xf800) === 0xd800;

/**
 * DynamoDB orders text by its UTF-8 bytes. That is the order of JavaScript's units, except that a surrogate stands for a
 * character above all others.
 */
function compareTexts(one: string, other: string): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at++) {
    const [left, right] = [one.charCodeAt(at), other.charCodeAt(at)];
    if (left === right) continue;
    if (isSurrogate(left) !== isSurrogate(right)) return isSurrogate(left) ? 1 : -1;
    return left - right;
  }
  return one.length - other.length;
}

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
  if (one === other) return true;
  if ('N' in one && 'N' in other) return one.N === other.N || Number(one.N) === Number(other.N);
  if ('L' in one && 'L' in other) {
    return one.L.length === other.L.length && one.L.every((member, index) => equals(member, other.L[index] as Value));
  }
  if ('M' in one && 'M' in other) return sameItem(one.M, other.M);
  if (typeOf(one) !== typeOf(other)) return false;
  const [ones, others] = [membersOf(one), membersOf(other)];
  return ones && others ? sameMembers(ones, others) : contentOf(one) === contentOf(other);
}

export function sameItem(one: Item, other: Item): boolean {
  if (one === other) return true;
  const names = Object.keys(one);
  if (names.length !== Object.keys(other).length) return false;
  for (const name of names) {
    const value = memberOf(other, name);
    if (value === undefined || !equals(one[name] as Value, value)) return false;
  }
  return true;
}

/** The members of a set. Undefined for every other value. */
export function membersOf(value: Value): readonly string[] | undefined {
  if ('SS' in value) return value.SS;
  if ('NS' in value) return value.NS;
  if ('BS' in value) return value.BS;
  return undefined;
}

/** Refuses a value that DynamoDB refuses. */
export function checkValue(value: Value): void {
  if ('S' in value) return;
  if ('N' in value) checkNumber(value.N);
  else if ('L' in value) value.L.forEach(checkValue);
  else if ('M' in value) checkItemValues(value.M);
  else if (membersOf(value)?.length === 0) {
    throw invalid('One or more parameter values were invalid: An string set  may not be empty');
  }
}

export function checkItemValues(item: Item): void {
  for (const name of Object.keys(item)) checkValue(item[name] as Value);
}

function checkNumber(text: string): void {
  if (text.trim() === '' || !Number.isFinite(Number(text)))
    throw invalid(`The parameter cannot be converted to a numeric value: ${text}`);
}
