/** All locks of the namespace, live. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { busyness, holdMs, type Shown, type SortBy, totalsOf, waitMs } from '../../model/book.ts';
import { isHeld, isReadWrite, type LockPicture, lastEventAt, permitsHeld } from '../../model/lock-picture.ts';
import { agoOf, countOf, grouped, wholeSpanOf } from '../../model/words.ts';
import { now, redraw } from '../draw.ts';
import { arrange, book, isComplete, isListed, setPointedAt, setSeen, wanted } from '../knowledge.ts';
import { choice, empty, joined, lockLink, paragraph, searchField, top, typed } from '../parts.ts';
import { type Route, setQuery } from '../route.ts';
import { type Column, table } from '../table.ts';
import { lastMinutes, leaseBar, stateMark } from './drawings.ts';
import { firstLock } from './empty.ts';

const kinds: readonly (readonly [Shown, string])[] = [
  ['all', 'All'],
  ['held', 'Held'],
  ['waited', 'Waited for'],
  ['free', 'Free lately'],
];

const sorts: readonly (readonly [SortBy, string])[] = [
  ['busy', 'Busy first'],
  ['waiters', 'Most waiters'],
  ['wait', 'Longest wait'],
  ['hold', 'Longest hold'],
  ['name', 'Name'],
];

/** Two lines of text, and four on a narrow screen. */
const rowHeight = 56;
const rowHeightNarrow = 92;
const narrow = matchMedia('(max-width: 760px)');

export function locksView(): TemplateResult {
  const names = arrange();
  return html`${top('Locks', summary())}${toolbar()}${names.length ? list(names) : noLocks()}`;
}

function summary(): string {
  if (!isListed) return 'Reading …';
  const { locks, held, waited, waiters, longestWaitMs } = totalsOf(book, now());
  return joined(
    countOf(locks, 'lock'),
    `${grouped(held)} held`,
    waiters ? `${countOf(waiters, 'waiter')} at ${countOf(waited, 'lock')}` : 'nobody waits',
    longestWaitMs > 0 && `longest wait ${wholeSpanOf(longestWaitMs)}`,
    !isComplete && 'the first 5,000: search to see others',
  );
}

function want(query: Route['query']): void {
  // A letter in the search field must not add an entry to the browser's history.
  history.replaceState(null, '', setQuery(query));
  redraw();
}

function toolbar(): TemplateResult {
  const { prefix, shown, sortBy } = wanted();
  return html`<div class="tools" role="search">
    ${searchField('Begins with', 'wallet:', prefix, (event) => want({ prefix: typed(event) }))}
    ${choice(
      'Show',
      '',
      kinds,
      (kind) => kind === shown,
      (kind) => want({ show: kind }),
    )}
    <label class="field">
      <span>Sort by</span>
      <select @change=${(event: Event) => want({ sort: typed(event) })}>
        ${sorts.map(([sort, title]) => html`<option value=${sort} .selected=${sort === sortBy}>${title}</option>`)}
      </select>
    </label>
  </div>`;
}

function noLocks(): TemplateResult {
  if (!isListed) return empty('');
  if (!book.size) return firstLock();
  const { prefix, shown } = wanted();
  const which = { all: '', held: ' that is held', waited: ' that somebody waits for', free: ' that was free lately' }[
    shown
  ];
  return empty(
    html`There is no lock${which}${prefix && html` whose name begins with <code>${prefix}</code>`}.`,
    paragraph(`${countOf(book.size, 'lock')} of this namespace ${book.size === 1 ? 'is' : 'are'} not shown.`),
    html`<button @click=${() => want({ prefix: '', show: '' })}>Show all</button>`,
  );
}

const point = ({ type }: Event): void => setPointedAt(/enter|in/.test(type));

const list = (names: readonly string[]): TemplateResult => html`<div class="locks"
  @pointerenter=${point} @pointerleave=${point} @focusin=${point} @focusout=${point}>
  ${table({
    label: 'Locks',
    rowHeight: narrow.matches ? rowHeightNarrow : rowHeight,
    rows: names.map((name) => book.get(name) as LockPicture),
    keyOf: ({ lock }) => lock,
    hasLinks: true,
    onSeen: (seen) => setSeen(seen.map(({ lock }) => lock)),
    classOf: heatOf,
    columns,
  })}
</div>`;

/** How much a row stands out. */
function heatOf(lock: LockPicture): string {
  const busy = busyness(lock, now());
  return busy >= 0.75 ? 'hot' : busy >= 0.3 ? 'warm' : isHeld(lock) ? 'held' : 'free';
}

const columns: readonly Column<LockPicture>[] = [
  ['Lock', 'c-name', (lock) => html`${stateMark(lock)}${lockLink(lock.lock)}<small>${stateWords(lock)}</small>`],
  ['Holder', 'c-holder', holderCell],
  ['Time left', 'c-left', ({ holders: [first] }) => (first ? leaseBar(first) : nothing)],
  [
    'Waiting',
    'c-queue',
    (lock) =>
      html`<b class=${lock.queueDepth ? '' : 'quiet'}>${grouped(lock.queueDepth)}</b>${lock.queueDepth ? html`<small>for ${wholeSpanOf(waitMs(lock, now()))}</small>` : nothing}`,
  ],
  ['Last 5 minutes', 'c-picture', lastMinutes],
  ['Fence', 'c-fence number', ({ fence }) => fence || ''],
];

function stateWords(lock: LockPicture): string {
  const { holders, limit } = lock;
  const last = lastEventAt(lock);
  return joined(
    isHeld(lock)
      ? `held ${wholeSpanOf(holdMs(lock, now()))}`
      : last === 0
        ? 'free'
        : `free, used ${agoOf(now() - last)}`,
    isReadWrite(lock) ? countOf(holders.length, 'reader') : limit > 1 && `${permitsHeld(lock)} of ${limit} permits`,
  );
}

function holderCell({ holders: [first, ...others] }: LockPicture): TemplateResult {
  if (!first) return html`<span class="quiet">nobody</span>`;
  const { owner, sessionId } = first;
  const more = joined(
    others.length ? `and ${countOf(others.length, 'other')}` : '',
    sessionId && `session ${sessionId.slice(0, 6)}`,
  );
  return html`<b>${owner}</b>${more && html`<small>${more}</small>`}`;
}
