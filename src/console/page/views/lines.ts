/** Coordinates and labels of drawings. */

export const px = (pixels: number): string => pixels.toFixed(1);

/** The beginning of a text, if all of it does not fit. */
export const short = (text: string, max: number): string => (text.length <= max ? text : `${text.slice(0, max - 1)}…`);

/** The length of a queue over time, as an area on a base line. */
export function stepsOf(
  depths: readonly { readonly at: number; readonly depth: number }[],
  x: (at: number) => number,
  base: number,
  height: number,
): string {
  const most = Math.max(1, ...depths.map(({ depth }) => depth));
  const steps = depths.map(({ at, depth }) => `H${px(x(at))}V${px(base - (depth / most) * height)}`);
  return `M0 ${base}${steps.join('')}V${base}Z`;
}
