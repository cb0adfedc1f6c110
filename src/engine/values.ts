/** DynamoDB's typed values: their types, their size and their order. */
import { invalid } from './errors.ts';
import { compareNumbers, spelled } from './numbers.ts';

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
  if ('N' in one && 'N' in other) return compareNumbers(one.N, other.N) === 0;
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

const wrongSet = (why: string) => invalid(`One or more parameter values were invalid: ${why}`);

function checkedSet<Value extends SetValue>(value: Value, members: readonly string[]): Value {
  if (members.length === 0) throw wrongSet('An string set  may not be empty');
  if (new Set(members).size < members.length) throw wrongSet('Input collection contains duplicates');
  return value;
}

/**
 * A value as it is stored, which is the same object unless it has a number in another spelling. Throws if DynamoDB
 * refuses it.
 */
export function storedValue(value: Value): Value {
  const type = typeOf(value);
  for (const other in value)
    if (other !== type) throw invalid('Supplied AttributeValue has more than one datatypes set');
  if ('S' in value || 'BOOL' in value || 'NULL' in value || 'B' in value) return value;
  if ('N' in value) {
    const N = spelled(value.N);
    return N === value.N ? value : { N };
  }
  if ('L' in value) {
    const L = sharedMap(value.L, storedValue);
    return L === value.L ? value : { L };
  }
  if ('M' in value) {
    const M = storedItem(value.M);
    return M === value.M ? value : { M };
  }
  if ('NS' in value) {
    const NS = sharedMap(value.NS, spelled);
    return checkedSet(NS === value.NS ? value : { NS }, NS);
  }
  const members = membersOf(value);
  if (members === undefined)
    throw invalid('Supplied AttributeValue is empty, must contain exactly one of the supported datatypes');
  return checkedSet(value as SetValue, members);
}

/** The same for an item, or for the members of a map. */
export function storedItem(item: Item): Item {
  let copy: Record<string, Value> | undefined;
  for (const name of Object.keys(item)) {
    if (name === '') throw invalid('One or more parameter values were invalid: An attribute name may not be empty');
    const value = item[name] as Value;
    const stored = storedValue(value);
    if (stored === value) continue;
    copy ??= { ...item };
    copy[name] = stored;
  }
  return copy ?? item;
}

/** The list itself if nothing in it changes. */
function sharedMap<T>(list: readonly T[], change: (member: T) => T): readonly T[] {
  let copy: T[] | undefined;
  for (const [index, member] of list.entries()) {
    const changed = change(member);
    if (changed === member) continue;
    copy ??= [...list];
    copy[index] = changed;
  }
  return copy ?? list;
}
