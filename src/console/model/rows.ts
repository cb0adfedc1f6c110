/** Which rows of a long list are drawn: the visible ones, and a few around them. */

export interface Rows {
  readonly first: number;
  /** The index after the last row. */
  readonly end: number;
}

/** One turn of the mouse wheel scrolls about this many rows before the next frame. */
const around = 8;

export function rowsSeen(scrollTop: number, height: number, rowHeight: number, count: number): Rows {
  const first = Math.max(0, Math.min(count, Math.floor(scrollTop / rowHeight) - around));
  const end = Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + around);
  return { first, end: Math.max(first, end) };
}
