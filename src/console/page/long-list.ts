/** A list of any length of which only what is seen is drawn. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { ref } from 'lit-html/directives/ref.js';
import { repeat } from 'lit-html/directives/repeat.js';
import { rowsSeen } from '../model/rows.ts';

export interface LongList {
  /** Where it was scrolled to is remembered by this. */
  readonly id: string;
  readonly label: string;
  readonly rowHeight: number;
  readonly keys: readonly string[];
  readonly head?: TemplateResult;
  /** Inside a `role="row"`. */
  readonly row: (index: number) => TemplateResult;
  readonly rowClass?: (index: number) => string;
  readonly redraw: () => void;
  readonly onSeen?: (first: number, end: number) => void;
  /** Whether the rows hold links that arrows move between. Otherwise the list itself can be focused, to be scrolled. */
  readonly hasLinks?: boolean;
}

interface Place {
  scrollTop: number;
  height: number;
  element: Element | undefined;
  readonly observer: ResizeObserver;
}

const places = new Map<string, Place>();

function placeOf(id: string, redraw: () => void): Place {
  const known = places.get(id);
  if (known !== undefined) return known;
  const place: Place = {
    scrollTop: 0,
    height: 600,
    element: undefined,
    observer: new ResizeObserver(([entry]) => {
      const height = Math.round(entry?.contentRect.height ?? 0);
      if (height === 0 || height === place.height) return;
      place.height = height;
      redraw();
    }),
  };
  places.set(id, place);
  return place;
}

function attach(place: Place, element: Element | undefined): void {
  if (element === place.element) return;
  place.observer.disconnect();
  place.element = element;
  if (element === undefined) return;
  place.observer.observe(element);
  // Back from another view, the list is where it was left.
  element.scrollTop = place.scrollTop;
}

export function longList(list: LongList): TemplateResult {
  const { id, label, rowHeight, keys, head, row, redraw } = list;
  const place = placeOf(id, redraw);
  const { first, end } = rowsSeen(place.scrollTop, place.height, rowHeight, keys.length);
  list.onSeen?.(first, end);
  const onScroll = (event: Event) => {
    place.scrollTop = (event.target as HTMLElement).scrollTop;
    const now = rowsSeen(place.scrollTop, place.height, rowHeight, keys.length);
    if (now.first !== first || now.end !== end) redraw();
  };
  const shown = Array.from({ length: end - first }, (_, at) => first + at);
  // The header is the first row of the table.
  return html`<div class="table" role="table" aria-label=${label} aria-rowcount=${keys.length + 1}>
    ${head === undefined ? nothing : html`<div role="row" aria-rowindex="1" class="row head">${head}</div>`}
    <div
      class="rows"
      role=${keys.length === 0 ? nothing : 'rowgroup'}
      tabindex=${list.hasLinks ? nothing : 0}
      aria-label=${list.hasLinks ? nothing : label}
      @scroll=${{ handleEvent: onScroll, passive: true }}
      @keydown=${list.hasLinks ? moveByArrows : nothing}
      ${ref((element) => attach(place, element))}
    >
      <div class="space" role="presentation" .style=${`height:${keys.length * rowHeight}px`}>
        ${repeat(
          shown,
          (index) => keys[index],
          (index) => html`<div
            role="row"
            aria-rowindex=${index + 2}
            class="row ${list.rowClass?.(index) ?? ''}"
            .style=${`transform:translateY(${index * rowHeight}px);height:${rowHeight}px`}
          >${row(index)}</div>`,
        )}
      </div>
    </div>
  </div>`;
}

/** Arrows go from row to row, as in any list; Home and End to its ends. */
function moveByArrows(event: KeyboardEvent): void {
  const scroller = event.currentTarget as HTMLElement;
  const row = (event.target as HTMLElement).closest<HTMLElement>('[role=row]');
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
  if (row === null || step === undefined) return;
  event.preventDefault();
  const wanted = String(Number(row.getAttribute('aria-rowindex')) + step);
  const next = scroller.querySelector<HTMLElement>(`[aria-rowindex="${wanted}"]`);
  const link = next?.querySelector('a');
  if (next === null || link == null) return;
  link.focus({ preventScroll: true });
  const top = next.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
  if (top < 0) scroller.scrollTop += top;
  else if (top + next.offsetHeight > scroller.clientHeight) {
    scroller.scrollTop += top + next.offsetHeight - scroller.clientHeight;
  }
}
