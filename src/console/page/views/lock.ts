/** One lock: who holds it, who waits, and how that came about. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { endings, eventWords, type Happening, keyOf } from '../../model/events.ts';
import { type HolderPicture, isHeld, isReadWrite, type LockPicture, unknownLock } from '../../model/lock-picture.ts';
import { estimator, type Measures, measuresOf } from '../../model/measures.ts';
import { clockOf, countOf, grouped, momentOf, spanOf, wholeSpanOf } from '../../model/words.ts';
import type { App } from '../app.ts';
import { longList } from '../long-list.ts';
import { addressOf } from '../route.ts';
import { leaseBar } from './lease-bar.ts';
import { mark } from './marks.ts';
import { timelineView } from './timeline.ts';

export function lockView(app: App, name: string): TemplateResult {
  const lock = app.book.get(name) ?? unknownLock(name);
  const now = app.now();
  const { namespace } = app.route;
  return html`
    <div class="top">
      <p class="crumb"><a href=${addressOf({ namespace, view: 'locks' })}>Locks</a></p>
      <h1 tabindex="-1" class="name">${name}</h1>
      <p class="quiet facts">${factsOf(lock)}</p>
    </div>
    ${lock.fence === 0 && lock.events.length === 0 && !lock.isGuess ? neverUsed(name) : nothing}
    <div class="panels">
      ${holdersPanel(app, lock, now)}
      ${queuePanel(app, lock, now)}
      ${timelineView(app, lock, now)}
      ${measuresPanel(measuresOf(lock, app.windowMs, now), app.windowMs)}
      ${historyPanel(app, lock, now)}
    </div>
  `;
}

const neverUsed = (name: string): TemplateResult =>
  html`<p class="note">Nobody has used <code>${name}</code> yet, or not for so long that it was forgotten.</p>`;

function factsOf(lock: LockPicture): TemplateResult {
  const kind = isReadWrite(lock) ? 'read-write lock' : lock.limit > 1 ? `semaphore of ${lock.limit}` : 'mutex';
  return html`<span class="state ${isHeld(lock) ? 'held' : 'free'}">${mark(isHeld(lock) ? 'holding' : 'free')}${
    isHeld(lock) ? 'held' : 'free'
  }</span> · ${kind} · fence <b class="number">${lock.fence}</b>`;
}

function holdersPanel(app: App, { lock, holders, limit }: LockPicture, now: number): TemplateResult {
  const used = holders.reduce((sum, { permits }) => sum + permits, 0);
  const permits = limit > 1 && limit <= 1_000 ? html`<span class="quiet">${used} of ${limit} permits</span>` : nothing;
  return html`<section class="panel holders" aria-label="Holders">
    <h2>Held by ${permits}</h2>
    ${holders.length === 0 ? html`<p class="quiet none">Nobody. The next who asks gets it at once.</p>` : nothing}
    <ul>
      ${holders.slice(0, holdersShown).map((holder) => holderItem(app, lock, holder, now))}
    </ul>
    ${holders.length > holdersShown ? html`<p class="quiet">and ${grouped(holders.length - holdersShown)} more</p>` : nothing}
  </section>`;
}

/** As many as stand beside a full queue. A semaphore may have a thousand. */
const holdersShown = 50;

function holderItem(app: App, lock: string, holder: HolderPicture, now: number): TemplateResult {
  const { owner, fence, permits, since, sessionId, metadata = {} } = holder;
  const { namespace } = app.route;
  const meta = Object.entries(metadata).sort(([one], [other]) => (one < other ? -1 : 1));
  return html`<li>
    <div class="who"><b>${owner}</b>${leaseBar(holder, now)}</div>
    <dl>
      <div><dt>Since</dt><dd>${momentOf(since, now)} <span class="quiet">(${wholeSpanOf(now - since)})</span></dd></div>
      <div><dt>Fence</dt><dd class="number">${fence}</dd></div>
      ${permits > 1 ? html`<div><dt>Permits</dt><dd>${permits}</dd></div>` : nothing}
      ${
        sessionId === undefined
          ? nothing
          : html`<div><dt>Session</dt><dd><a href=${addressOf({ namespace, view: 'sessions', name: sessionId })}>${sessionId}</a></dd></div>`
      }
      ${meta.map(([key, value]) => html`<div><dt>${key}</dt><dd>${value}</dd></div>`)}
    </dl>
    ${
      app.about?.allowRevoke
        ? html`<button class="danger quiet-button" @click=${() => app.askRevoke(lock, fence, owner)}>Revoke …</button>`
        : nothing
    }
  </li>`;
}

const queueRow = 36;

function queuePanel(app: App, lock: LockPicture, now: number): TemplateResult {
  const { queue, queueDepth } = lock;
  const estimate = estimator(lock, now);
  const head = html`
    <span role="columnheader" class="q-place">#</span>
    <span role="columnheader" class="q-owner">Owner</span>
    <span role="columnheader" class="q-since">Waits</span>
    <span role="columnheader" class="q-permits">Permits</span>
    <span role="columnheader" class="q-estimate">Estimate</span>
  `;
  const row = (index: number): TemplateResult => {
    const { owner, since, permits, sessionId } = queue[index] as LockPicture['queue'][number];
    return html`
      <span role="cell" class="q-place number">${index + 1}</span>
      <span role="cell" class="q-owner"><b>${owner}</b>${sessionId === undefined ? nothing : html` <small>session ${sessionId.slice(0, 6)}</small>`}</span>
      <span role="cell" class="q-since number" title=${`since ${clockOf(since)}`}>${wholeSpanOf(now - since)}</span>
      <span role="cell" class="q-permits number">${permits}</span>
      <span role="cell" class="q-estimate number">${estimate === undefined ? '–' : `~ ${wholeSpanOf(estimate(index + 1))}`}</span>
    `;
  };
  return html`<section class="panel queue" aria-label="Queue">
    <h2>Queue <span class="quiet">${queueDepth === 0 ? '' : `${grouped(queueDepth)} waiting`}</span></h2>
    ${
      queue.length === 0
        ? html`<p class="quiet none">${queueDepth === 0 ? 'Nobody waits.' : 'Reading …'}</p>`
        : longList({
            id: `queue ${lock.lock}`,
            label: 'Queue, in order',
            rowHeight: queueRow,
            keys: queue.map(({ owner, since }, index) => `${owner} ${Math.round(since / 1_000)} ${index}`),
            head,
            row,
            redraw: () => app.redraw(),
          })
    }
    ${
      queue.length > 0 && queueDepth > queue.length
        ? html`<p class="quiet more">and ${grouped(queueDepth - queue.length)} behind them</p>`
        : nothing
    }
  </section>`;
}

function measuresPanel(measures: Measures, windowMs: number): TemplateResult {
  const { meanHoldMs, meanWaitMs, verdict, grants, heldShare, ended, longestWaitMs } = measures;
  const most = Math.max(1, meanHoldMs ?? 0, meanWaitMs ?? 0);
  const bar = (name: string, title: string, ms: number | null) => html`<div class="against ${name}">
    <span>${title}</span>
    <i><b .style=${`transform:scaleX(${((ms ?? 0) / most).toFixed(3)})`}></b></i>
    <span class="number">${ms === null ? '–' : spanOf(ms)}</span>
  </div>`;
  return html`<section class="panel measures" aria-label="Wait against hold">
    <h2>Wait against hold <span class="quiet">last ${spanOf(windowMs)}</span></h2>
    ${bar('wait', 'Mean wait', meanWaitMs)} ${bar('hold', 'Mean hold', meanHoldMs)}
    <p class="verdict ${verdict.weight}">${verdict.words}</p>
    <dl class="numbers">
      <div><dt>Grants</dt><dd>${grouped(grants)}</dd></div>
      <div><dt>Held</dt><dd>${Math.round(heldShare * 100)} % of the time</dd></div>
      <div><dt>Longest wait</dt><dd>${spanOf(longestWaitMs)}</dd></div>
      ${endings.map((how) => html`<div><dt>${mark(how)} ${endingTitles[how]}</dt><dd>${grouped(ended[how])}</dd></div>`)}
    </dl>
  </section>`;
}

const endingTitles = {
  released: 'Released',
  expired: 'Expired',
  revoked: 'Revoked',
  'session-lost': 'Session lost',
} as const;

const historyRow = 34;

function historyPanel(app: App, lock: LockPicture, now: number): TemplateResult {
  const events = lock.events.toReversed();
  const head = html`
    <span role="columnheader" class="h-at">At</span>
    <span role="columnheader" class="h-what">Event</span>
    <span role="columnheader" class="h-fence">Fence</span>
  `;
  return html`<section class="panel history" aria-label="History">
    <h2>History <span class="quiet">${events.length === 0 ? '' : countOf(events.length, 'event')}, newest first; kept for seven days</span></h2>
    ${
      events.length === 0
        ? html`<p class="quiet none">${lock.hasHistory ? 'Nothing is known of this lock.' : 'Reading …'}</p>`
        : longList({
            id: `history ${lock.lock}`,
            label: 'History, newest first',
            rowHeight: historyRow,
            keys: events.map(keyOf),
            head,
            redraw: () => app.redraw(),
            row: (index) => historyItem(events[index] as Happening, now),
          })
    }
  </section>`;
}

const historyItem = (event: Happening, now: number): TemplateResult => html`
  <span role="cell" class="h-at number">${momentOf(event.at, now)}</span>
  <span role="cell" class="h-what">${mark(event.type)}<b>${event.owner}</b> ${eventWords[event.type]}<small>${detailsOf(event)}</small></span>
  <span role="cell" class="h-fence number">${event.fence ?? ''}</span>
`;

/** What an event says besides who and what. */
export function detailsOf({ waitedMs, heldMs, reason }: Happening): string {
  return [
    waitedMs === undefined || waitedMs === 0 ? '' : `waited ${spanOf(waitedMs)}`,
    heldMs === undefined ? '' : `held ${spanOf(heldMs)}`,
    reason ?? '',
  ]
    .filter((part) => part !== '')
    .join(' · ');
}
