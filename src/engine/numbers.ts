/** DynamoDB's numbers: exact decimals of up to 38 digits, as strings. */
import { invalid } from './errors.ts';

const digitsMax = 38;
/** The powers of ten of the largest and of the smallest first digit. */
const powerMax = 125;
const powerMin = -130;

const form = /^[+-]?(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?$/;
/** Whole numbers that JavaScript has exactly. Almost every number of Holdfast is one. */
const safe = /^(?:0|-?[1-9]\d{0,14})$/;

/** `digits` times ten to the power of `exponent`. */
interface Decimal {
  readonly digits: bigint;
  readonly exponent: number;
}

function parse(text: string): Decimal {
  const match = form.exec(text);
  if (match === null) throw invalid(`The parameter cannot be converted to a numeric value: ${text}`);
  const [, mantissa = '', power = '0'] = match;
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = BigInt(whole + fraction) * (text.startsWith('-') ? -1n : 1n);
  return { digits, exponent: Number(power) - fraction.length };
}

/** Writes a number as DynamoDB does: without an exponent, and without zeros that say nothing. */
function print({ digits, exponent }: Decimal): string {
  if (digits === 0n) return '0';
  const sign = digits < 0n ? '-' : '';
  const significant = String(digits < 0n ? -digits : digits).replace(/0+$/, '');
  const power = exponent + String(digits < 0n ? -digits : digits).length - significant.length;
  const first = significant.length - 1 + power;
  if (significant.length > digitsMax) throw invalid('Attempting to store more than 38 significant digits in a Number');
  if (first > powerMax)
    throw invalid('Number overflow. Attempting to store a number with magnitude larger than supported range');
  if (first < powerMin)
    throw invalid('Number underflow. Attempting to store a number with magnitude smaller than supported range');
  if (power >= 0) return sign + significant + '0'.repeat(power);
  if (first >= 0) return `${sign}${significant.slice(0, power)}.${significant.slice(power)}`;
  return `${sign}0.${'0'.repeat(-first - 1)}${significant}`;
}

/** The one spelling of a number. Throws if it is none, or if DynamoDB can't store it. */
export const spelled = (text: string): string => (safe.test(text) ? text : print(parse(text)));

/** Both on one exponent. */
function aligned(one: Decimal, other: Decimal): [bigint, bigint, number] {
  const exponent = Math.min(one.exponent, other.exponent);
  const scaled = (number: Decimal): bigint => number.digits * 10n ** BigInt(number.exponent - exponent);
  return [scaled(one), scaled(other), exponent];
}

export function addNumbers(one: string, other: string, sign: 1 | -1): string {
  if (safe.test(one) && safe.test(other)) return String(Number(one) + sign * Number(other));
  const [left, right, exponent] = aligned(parse(one), parse(other));
  return print({ digits: left + BigInt(sign) * right, exponent });
}

/** Below zero, zero or above zero. */
export function compareNumbers(one: string, other: string): number {
  if (one === other) return 0;
  if (safe.test(one) && safe.test(other)) return Number(one) - Number(other);
  const [left, right] = aligned(parse(one), parse(other));
  return left === right ? 0 : left < right ? -1 : 1;
}
