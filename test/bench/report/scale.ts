/** The position of values on an axis, with equal steps for equal ratios, because the values differ by orders of magnitude. */
export interface LogScale {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
  /** From 0 to 1. */
  at(value: number): number;
}

const steps = [1, 2, 5];

/** The nearest of 1, 2, 5, 10, 20, … that is not above the value, or not below it. */
function roundTo(value: number, direction: 'down' | 'up'): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const candidates = [...steps, 10].map((step) => step * power);
  // A small tolerance, because 10 ** -1 * 5 is not exactly 0.5.
  const fits =
    direction === 'down'
      ? candidates.filter((one) => one <= value * 1.000_001)
      : candidates.filter((one) => one >= value * 0.999_999);
  return (direction === 'down' ? fits.at(-1) : fits[0]) ?? value;
}

function ticksBetween(low: number, high: number): number[] {
  const ticks: number[] = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high * 1.000_001; power *= 10) {
    for (const step of steps) ticks.push(Number((step * power).toPrecision(6)));
  }
  const inside = ticks.filter((tick) => tick >= low * 0.999_999 && tick <= high * 1.000_001);
  // Over many decades only the powers of ten have labels, because more labels would touch.
  return inside.length > 12 ? inside.filter((tick) => Math.abs(Math.log10(tick) % 1) < 1e-6) : inside;
}

export function logScale(values: readonly number[]): LogScale {
  const positive = values.filter((value) => value > 0 && Number.isFinite(value));
  const low = roundTo(positive.length === 0 ? 1 : Math.min(...positive), 'down');
  const top = roundTo(positive.length === 0 ? 10 : Math.max(...positive), 'up');
  const high = top > low ? top : low * 10;
  return {
    low,
    high,
    ticks: ticksBetween(low, high),
    at: (value) => Math.log(value / low) / Math.log(high / low),
  };
}
