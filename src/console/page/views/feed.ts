/** Events as they happen. */
import { html, type TemplateResult } from 'lit-html';
import { type EventType, eventTitle, eventTypes, eventWords, type Happening, keyOf } from '../../model/events.ts';
import { filtered } from '../../model/feed.ts';
import { countOf, grouped, momentOf, spanOf } from '../../model/words.ts';
import { now, redraw } from '../draw.ts';
import { feed } from '../knowledge.ts';
import { choice, empty, joined, lockLink, paragraph, searchField, top, typed } from '../parts.ts';
import { type Column, table } from '../table.ts';
import { mark } from './drawings.ts';

/** The other fields of an event. */
const detailsOf = ({ waitedMs, heldMs, by, reason }: Happening): string =>
  joined(
    waitedMs ? `waited ${spanOf(waitedMs)}` : '',
    heldMs !== undefined && `held ${spanOf(heldMs)}`,
    by !== undefined && `by ${by}`,
    reason,
  );

/** How a table shows events. */
export const eventColumns: readonly [Column<Happening>, Column<Happening>, Column<Happening>] = [
  ['At', 'number', ({ at }) => momentOf(at, now())],
  [
    'Event',
    'e-what',
    (event) =>
      html`${mark(event.type)}<b>${event.owner}</b> ${eventWords[event.type]}<small>${detailsOf(event)}</small>`,
  ],
  ['Fence', 'e-fence number', ({ fence }) => fence],
];

const types = new Set<EventType>();
let text = '';

export function feedView(): TemplateResult {
  const all = feed.events.length;
  const events = filtered(feed.events, { types, text });
  return html`
    ${top('Feed', `${countOf(events.length, 'event')}${events.length === all ? '' : ` of ${grouped(all)}`}, newest first`, stopButton())}
    ${toolbar()}
    ${events.length ? list(events) : noEvents(all > 0)}
  `;
}

/** Stops the feed, so that people can read it, and starts it again. */
function stopButton(): TemplateResult {
  const { isStopped, missed } = feed;
  const stop = () => {
    if (isStopped) feed.resume();
    else feed.stop();
    redraw();
  };
  const words = isStopped ? `Resume${missed ? ` (${grouped(missed)} new)` : ''}` : 'Stop';
  return html`<button class="stop" aria-pressed=${isStopped} @click=${stop}>${words}</button>`;
}

function toolbar(): TemplateResult {
  const toggle = (type: EventType) => {
    if (!types.delete(type)) types.add(type);
    redraw();
  };
  return html`<div class="tools" role="search">
    ${searchField('Lock or owner', 'wallet', text, (event) => {
      text = typed(event);
      redraw();
    })}
    ${choice(
      'Only',
      'many',
      eventTypes.map((type) => [type, [mark(type), eventTitle(type)]]),
      (type) => types.has(type),
      toggle,
      'checkbox',
    )}
  </div>`;
}

const noEvents = (isFiltered: boolean): TemplateResult =>
  isFiltered
    ? empty('No event like that so far.', paragraph('The filters above hide every event.'))
    : empty(
        'Nothing has happened since this page was opened.',
        paragraph('Events appear here as they happen. Earlier events are in the history of each lock.'),
      );

const [at, what, fence] = eventColumns;

const list = (events: readonly Happening[]): TemplateResult =>
  table({
    label: 'Events, newest first',
    rowHeight: 38,
    rows: events,
    keyOf,
    hasLinks: true,
    columns: [at, ['Lock', '', ({ lock }) => lockLink(lock)], what, fence],
  });
