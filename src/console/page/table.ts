/** A table of any length. Only its visible rows are drawn. */
import { html, render, type TemplateResult } from 'lit-html';
import { rowsSeen } from '../model/rows.ts';
import { redraw } from './draw.ts';
import { name, namespace, view } from './route.ts';

export type Column<T> = readonly [title: string, name: string, cell: (row: T, index: number) => unknown];

export interface Table<T> {
  readonly label: string;
  readonly rowHeight: number;
  readonly rows: readonly T[];
  readonly keyOf: (row: T, index: number) => string;
  readonly columns: readonly Column<T>[];
  readonly classOf?: (row: T) => string;
  readonly onSeen?: (rows: readonly T[]) => void;
  /** True if the rows have links, and the arrow keys move between them. If not, the table itself takes the focus, for scrolling. */
  readonly hasLinks?: boolean;
}

/** Enough to return to some earlier locks. */
const placesMax = 30;
/** After scrolling by less than this, there are still enough rows around the visible ones. */
const redrawAfter = 100;

/** For each table, a function that draws its rows and returns their element. */
const places = new Map<string, <T>(table: Table<T>) => HTMLElement>();

const newElement = (className: string, role: string): HTMLElement =>
  Object.assign(document.createElement('div'), { className, role });

function newPlace(): <T>(table: Table<T>) => HTMLElement {
  const scroller = newElement('rows', 'rowgroup');
  const space = newElement('space', 'presentation');
  let lines = new Map<string, HTMLElement>();
  let scrollTop = 0;
  let drawnTop = 0;
  let height = 600;
  scroller.append(space);
  scroller.onkeydown = moveByArrows;
  scroller.onscroll = () => {
    scrollTop = scroller.scrollTop;
    if (Math.abs(scrollTop - drawnTop) > redrawAfter) redraw();
  };
  new ResizeObserver(() => {
    // After a visit to another view, the table has the same scroll position.
    scroller.scrollTop = scrollTop;
    height = scroller.clientHeight || height;
    redraw();
  }).observe(scroller);
  return ({ label, rowHeight, rows, hasLinks, columns, keyOf, classOf, onSeen }) => {
    if (!hasLinks) Object.assign(scroller, { tabIndex: 0, ariaLabel: label });
    drawnTop = scrollTop;
    space.style.height = `${rows.length * rowHeight}px`;
    const { first, end } = rowsSeen(scrollTop, height, rowHeight, rows.length);
    const shown = rows.slice(first, end);
    onSeen?.(shown);
    const before = lines;
    lines = new Map();
    shown.forEach((row, at) => {
      const index = first + at;
      const key = keyOf(row, index);
      const line = before.get(key) ?? newElement('', 'row');
      before.delete(key);
      lines.set(key, line);
      line.ariaRowIndex = `${index + 2}`;
      line.className = `row ${classOf?.(row) ?? ''}`;
      line.style.cssText = `transform:translateY(${index * rowHeight}px);height:${rowHeight}px`;
      render(
        columns.map(([, kind, cell]) => html`<span role="cell" class=${kind}>${cell(row, index)}</span>`),
        line,
      );
    });
    for (const line of before.values()) line.remove();
    putInOrder(space, [...lines.values()]);
    return scroller;
  };
}

/** Keyboards and screen readers need the rows in order. A row in the right place is not moved, because it may have the focus. */
function putInOrder(space: HTMLElement, lines: readonly HTMLElement[]): void {
  lines.forEach((line, at) => {
    const there = space.children[at] ?? null;
    if (there !== line) space.insertBefore(line, there);
  });
}

export function table<T>(wanted: Table<T>): TemplateResult {
  const { label, rows, columns } = wanted;
  const id = [namespace, view, name, label].join();
  const draw = places.get(id) ?? newPlace();
  if (places.size > placesMax) places.clear();
  places.set(id, draw);
  // The header is the first row of the table.
  return html`<div class="table" role="table" aria-label=${label} aria-rowcount=${rows.length + 1}>
    <div role="row" aria-rowindex="1" class="row head">
      ${columns.map(([title, kind]) => html`<span role="columnheader" class=${kind}>${title}</span>`)}
    </div>
    ${draw(wanted)}
  </div>`;
}

/** Arrow keys move from row to row. */
function moveByArrows(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  const row = (event.target as Element).closest('[role=row]');
  if (row === null || step === undefined) return;
  event.preventDefault();
  const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  next?.querySelector('a')?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: 'nearest' });
}
