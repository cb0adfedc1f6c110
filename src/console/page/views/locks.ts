/** All locks of the namespace, live. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { busyness, holdMs, type Shown, type SortBy, totalsOf, waitMs } from '../../model/book.ts';
import { isHeld, isReadWrite, type LockPicture, lastEventAt } from '../../model/lock-picture.ts';
import { agoOf, countOf, grouped, wholeSpanOf } from '../../model/words.ts';
import type { App } from '../app.ts';
import { longList } from '../long-list.ts';
import { addressOf } from '../route.ts';
import { firstLock } from './empty.ts';
import { lastMinutes } from './last-minutes.ts';
import { leaseBar } from './lease-bar.ts';
import { mark } from './marks.ts';

const kinds: readonly { readonly shown: Shown; readonly title: string }[] = [
  { shown: 'all', title: 'All' },
  { shown: 'held', title: 'Held' },
  { shown: 'waited', title: 'Waited for' },
  { shown: 'free', title: 'Free lately' },
];

const sorts: readonly { readonly sort: SortBy; readonly title: string }[] = [
  { sort: 'busy', title: 'Busy first' },
  { sort: 'waiters', title: 'Most waiters' },
  { sort: 'wait', title: 'Longest wait' },
  { sort: 'hold', title: 'Longest hold' },
  { sort: 'name', title: 'Name' },
];

/** Two lines of text, and four on a narrow screen. */
const rowHeight = 56;
const rowHeightNarrow = 92;
const narrow = matchMedia('(max-width: 760px)');

export function locksView(app: App): TemplateResult {
  const names = app.arrange();
  const now = app.now();
  return html`
    <div class="top">
      <h1 tabindex="-1">Locks</h1>
      ${summary(app, now)}
    </div>
    ${toolbar(app)}
    ${names.length === 0 ? noLocks(app) : list(app, names, now)}
  `;
}

function summary(app: App, now: number): TemplateResult {
  const { locks, held, waited, waiters, longestWaitMs } = totalsOf(app.book, now);
  if (!app.isListed) return html`<p class="quiet">Reading …</p>`;
  const waits = waiters === 0 ? 'nobody waits' : `${countOf(waiters, 'waiter')} at ${countOf(waited, 'lock')}`;
  const more = app.isComplete ? '' : ' · the first 5,000: search to see others';
  return html`<p class="quiet">
    ${countOf(locks, 'lock')} · ${grouped(held)} held · ${waits}${
      longestWaitMs > 0 ? ` · longest wait ${wholeSpanOf(longestWaitMs)}` : ''
    }${more}
  </p>`;
}

function toolbar(app: App): TemplateResult {
  const { prefix, shown, sortBy } = app.wanted;
  return html`<div class="tools" role="search">
    <label class="field grow">
      <span>Begins with</span>
      <input
        type="search"
        spellcheck="false"
        autocomplete="off"
        autocapitalize="none"
        placeholder="wallet:"
        .value=${prefix}
        @input=${(event: Event) => app.setQuery({ prefix: (event.target as HTMLInputElement).value.trim() })}
      />
    </label>
    <fieldset class="choice">
      <legend>Show</legend>
      ${kinds.map(
        (kind) => html`<label
          ><input
            type="radio"
            name="shown"
            .checked=${kind.shown === shown}
            @change=${() => app.setQuery({ show: kind.shown === 'all' ? '' : kind.shown })}
          /><span>${kind.title}</span></label
        >`,
      )}
    </fieldset>
    <label class="field">
      <span>Sort by</span>
      <select @change=${(event: Event) => app.setQuery({ sort: (event.target as HTMLSelectElement).value })}>
        ${sorts.map(({ sort, title }) => html`<option value=${sort} .selected=${sort === sortBy}>${title}</option>`)}
      </select>
    </label>
  </div>`;
}

function noLocks(app: App): TemplateResult {
  if (!app.isListed) return html`<div class="empty"></div>`;
  if (app.book.size === 0) return firstLock(app);
  const { prefix, shown } = app.wanted;
  const which = { all: '', held: ' that is held', waited: ' that somebody waits for', free: ' that was free lately' }[
    shown
  ];
  return html`<div class="empty">
    <h2>There is no lock${which}${prefix === '' ? '' : html` whose name begins with <code>${prefix}</code>`}.</h2>
    <p>${countOf(app.book.size, 'lock')} of this namespace ${app.book.size === 1 ? 'is' : 'are'} not shown.</p>
    <button @click=${() => app.setQuery({ prefix: '', show: '' })}>Show all</button>
  </div>`;
}

const head = html`
  <span role="columnheader" class="c-name">Lock</span>
  <span role="columnheader" class="c-holder">Holder</span>
  <span role="columnheader" class="c-left">Time left</span>
  <span role="columnheader" class="c-queue">Waiting</span>
  <span role="columnheader" class="c-picture">Last 5 minutes</span>
  <span role="columnheader" class="c-fence">Fence</span>
`;

function list(app: App, names: readonly string[], now: number): TemplateResult {
  const pointed = (isPointedAt: boolean) => () => {
    app.isPointedAt = isPointedAt;
  };
  const pictureOf = (index: number) => app.book.get(names[index] as string) as LockPicture;
  return html`<div
    class="locks"
    @pointerenter=${pointed(true)}
    @pointerleave=${pointed(false)}
    @focusin=${pointed(true)}
    @focusout=${pointed(false)}
  >
    ${longList({
      id: `locks ${app.route.namespace}`,
      label: 'Locks',
      rowHeight: narrow.matches ? rowHeightNarrow : rowHeight,
      keys: names,
      head,
      hasLinks: true,
      redraw: () => app.redraw(),
      onSeen: (first, end) => {
        app.seen = names.slice(first, end);
      },
      rowClass: (index) => heatOf(pictureOf(index), now),
      row: (index) => row(app, pictureOf(index), now),
    })}
  </div>`;
}

/** How much a row stands out. */
function heatOf(lock: LockPicture, now: number): string {
  const busy = busyness(lock, now);
  if (busy >= 0.75) return 'hot';
  if (busy >= 0.3) return 'warm';
  return isHeld(lock) ? 'held' : 'free';
}

function row(app: App, lock: LockPicture, now: number): TemplateResult {
  const { namespace } = app.route;
  return html`
    <span role="cell" class="c-name">
      ${mark(isHeld(lock) ? 'holding' : 'free')}
      <a href=${addressOf({ namespace, view: 'locks', name: lock.lock })}>${lock.lock}</a>
      <small>${stateWords(lock, now)}</small>
    </span>
    <span role="cell" class="c-holder">${holderCell(lock)}</span>
    <span role="cell" class="c-left">${lock.holders[0] === undefined ? nothing : leaseBar(lock.holders[0], now)}</span>
    <span role="cell" class="c-queue">${queueCell(lock, now)}</span>
    <span role="cell" class="c-picture">${lastMinutes(lock, now)}</span>
    <span role="cell" class="c-fence">${lock.fence === 0 ? '' : lock.fence}</span>
  `;
}

export function stateWords(lock: LockPicture, now: number): string {
  const permits = lock.holders.reduce((sum, holder) => sum + holder.permits, 0);
  const kind = isReadWrite(lock)
    ? countOf(lock.holders.length, 'reader')
    : lock.limit > 1
      ? `${permits} of ${lock.limit} permits`
      : '';
  const held = isHeld(lock) ? `held ${wholeSpanOf(holdMs(lock, now))}` : '';
  const last = lastEventAt(lock);
  const free = isHeld(lock) ? '' : last === 0 ? 'free' : `free, used ${agoOf(now - last)}`;
  return [held, free, kind].filter((part) => part !== '').join(' · ');
}

function holderCell({ holders }: LockPicture): TemplateResult | typeof nothing {
  const [first, ...others] = holders;
  if (first === undefined) return html`<span class="quiet">nobody</span>`;
  const more = [
    others.length > 0 ? `and ${countOf(others.length, 'other')}` : '',
    first.sessionId === undefined ? '' : `session ${first.sessionId.slice(0, 6)}`,
  ].filter((part) => part !== '');
  return html`<b>${first.owner}</b>${more.length === 0 ? nothing : html`<small>${more.join(' · ')}</small>`}`;
}

function queueCell(lock: LockPicture, now: number): TemplateResult {
  if (lock.queueDepth === 0) return html`<span class="quiet">0</span>`;
  return html`<b>${grouped(lock.queueDepth)}</b><small>for ${wholeSpanOf(waitMs(lock, now))}</small>`;
}
