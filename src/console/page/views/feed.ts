/** Events as they happen. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { type EventType, eventTypes, eventWords, type Happening, keyOf } from '../../model/events.ts';
import { filtered } from '../../model/feed.ts';
import { countOf, grouped, momentOf } from '../../model/words.ts';
import type { App } from '../app.ts';
import { longList } from '../long-list.ts';
import { addressOf } from '../route.ts';
import { detailsOf } from './lock.ts';
import { mark } from './marks.ts';

export function feedView(app: App): TemplateResult {
  const { feed } = app;
  const events = filtered(feed.events, { types: app.feedTypes, text: app.feedText });
  return html`
    <div class="top">
      <h1 tabindex="-1">Feed</h1>
      <p class="quiet">${countOf(events.length, 'event')}${events.length === feed.events.length ? '' : ` of ${grouped(feed.events.length)}`}, newest first</p>
    </div>
    ${toolbar(app)}
    ${events.length === 0 ? noEvents(app) : list(app, events)}
  `;
}

const typeTitles: Readonly<Record<EventType, string>> = {
  granted: 'granted',
  queued: 'queued',
  released: 'released',
  expired: 'expired',
  revoked: 'revoked',
  'session-lost': 'session lost',
  'wait-cancelled': 'wait left',
  'wait-timeout': 'wait in vain',
};

function toolbar(app: App): TemplateResult {
  const { feed } = app;
  const toggle = (type: EventType) => () => {
    if (!app.feedTypes.delete(type)) app.feedTypes.add(type);
    app.redraw();
  };
  const stop = () => {
    if (feed.isStopped) feed.resume();
    else feed.stop();
    app.redraw();
  };
  return html`<div class="tools" role="search">
    <label class="field grow"
      ><span>Lock or owner</span
      ><input
        type="search"
        spellcheck="false"
        autocomplete="off"
        autocapitalize="none"
        placeholder="wallet"
        .value=${app.feedText}
        @input=${(event: Event) => {
          app.feedText = (event.target as HTMLInputElement).value.trim();
          app.redraw();
        }}
    /></label>
    <fieldset class="choice many">
      <legend>Only</legend>
      ${eventTypes.map(
        (type) =>
          html`<label><input type="checkbox" .checked=${app.feedTypes.has(type)} @change=${toggle(type)} /><span>${mark(type)}${typeTitles[type]}</span></label>`,
      )}
    </fieldset>
    <button class="stop" aria-pressed=${feed.isStopped ? 'true' : 'false'} @click=${stop}>
      ${feed.isStopped ? `Resume${feed.missed === 0 ? '' : ` (${grouped(feed.missed)} new)`}` : 'Stop'}
    </button>
  </div>`;
}

function noEvents(app: App): TemplateResult {
  const isFiltered = app.feed.events.length > 0;
  return html`<div class="empty">
    <h2>${isFiltered ? 'No event like that so far.' : 'Nothing has happened since this page was opened.'}</h2>
    <p>${isFiltered ? 'The filters above leave none of those that came.' : 'Grants, releases, queueing and endings appear here as they happen. What happened before is in the history of each lock.'}</p>
  </div>`;
}

const rowHeight = 38;

function list(app: App, events: readonly Happening[]): TemplateResult {
  const { namespace } = app.route;
  const now = app.now();
  const head = html`
    <span role="columnheader" class="f-at">At</span>
    <span role="columnheader" class="f-lock">Lock</span>
    <span role="columnheader" class="f-what">Event</span>
    <span role="columnheader" class="f-fence">Fence</span>
  `;
  return longList({
    id: `feed ${namespace}`,
    label: 'Events, newest first',
    rowHeight,
    keys: events.map(keyOf),
    head,
    hasLinks: true,
    redraw: () => app.redraw(),
    row: (index) => {
      const event = events[index] as Happening;
      const details = detailsOf(event);
      return html`
        <span role="cell" class="f-at number">${momentOf(event.at, now)}</span>
        <span role="cell" class="f-lock"><a href=${addressOf({ namespace, view: 'locks', name: event.lock })}>${event.lock}</a></span>
        <span role="cell" class="f-what">${mark(event.type)}<b>${event.owner}</b> ${eventWords[event.type]}${details === '' ? nothing : html`<small>${details}</small>`}</span>
        <span role="cell" class="f-fence number">${event.fence ?? ''}</span>
      `;
    },
  });
}
