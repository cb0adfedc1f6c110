/** One lock: its holders, its queue and its past. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { endings, eventTitle, keyOf } from '../../model/events.ts';
import {
  type HolderPicture,
  isHeld,
  isReadWrite,
  type LockPicture,
  permitsHeld,
  unknownLock,
} from '../../model/lock-picture.ts';
import { estimator, measuresOf } from '../../model/measures.ts';
import { clockOf, countOf, grouped, spanOf, wholeSpanOf } from '../../model/words.ts';
import { now } from '../draw.ts';
import { book } from '../knowledge.ts';
import { facts, moment, panel, quietly } from '../parts.ts';
import { addressOf, name } from '../route.ts';
import { table } from '../table.ts';
import { changeButton } from './change.ts';
import { bar, leaseBar, mark, stateMark } from './drawings.ts';
import { eventColumns } from './feed.ts';
import { timelineView, windowMs } from './timeline.ts';

export function lockView(): TemplateResult {
  const lock = book.get(name) ?? unknownLock(name);
  const isUnused = !(lock.fence || lock.events.length || lock.isGuess);
  return html`
    <div class="top">
      <p class="crumb"><a href=${addressOf('locks')}>Locks</a></p>
      <h1 tabindex="-1" class="name">${name}</h1>
      <p class="quiet">${kindOf(lock)}</p>
    </div>
    ${isUnused ? html`<p class="note">Nobody has used <code>${name}</code> yet, or so long ago that it was deleted.</p>` : nothing}
    <div class="panels">
      ${holdersPanel(lock)}${queuePanel(lock)}${timelineView(lock)}${measuresPanel(lock)}${historyPanel(lock)}
    </div>
  `;
}

function kindOf(lock: LockPicture): TemplateResult {
  const { limit, fence } = lock;
  const kind = isReadWrite(lock) ? 'read-write lock' : limit > 1 ? `semaphore of ${limit}` : 'mutex';
  return html`${stateMark(lock)} <b>${isHeld(lock) ? 'held' : 'free'}</b> · ${kind} · fence <b class="number">${fence}</b>`;
}

/** This many fit beside a full queue. A semaphore may have a thousand. */
const holdersShown = 50;

function holdersPanel(lock: LockPicture): TemplateResult {
  const { holders, limit } = lock;
  const hidden = holders.length - holdersShown;
  return panel(
    'holders',
    'Holders',
    limit > 1 && !isReadWrite(lock) ? `${permitsHeld(lock)} of ${limit} permits` : '',
    html`${isHeld(lock) ? nothing : quietly('Nobody. The next caller gets it at once.')}
      <ul>${holders.slice(0, holdersShown).map((holder) => holderItem(lock.lock, holder))}</ul>
      ${hidden > 0 ? quietly(`and ${grouped(hidden)} more`) : nothing}`,
  );
}

function holderItem(lock: string, holder: HolderPicture): TemplateResult {
  const { owner, fence, permits, since, sessionId, metadata = {} } = holder;
  return html`<li>
    <div class="who"><b>${owner}</b>${leaseBar(holder)}</div>
    ${facts(
      ['Since', moment(since, wholeSpanOf(now() - since))],
      ['Fence', fence],
      ...(permits > 1 ? [['Permits', permits] as const] : []),
      ...(sessionId ? [['Session', html`<a href=${addressOf('sessions', sessionId)}>${sessionId}</a>`] as const] : []),
      ...Object.entries(metadata).sort(),
    )}
    ${changeButton(lock, fence, owner)}
  </li>`;
}

function queuePanel(lock: LockPicture): TemplateResult {
  const { queue, queueDepth } = lock;
  const estimate = estimator(lock, now());
  const hidden = queueDepth - queue.length;
  return panel(
    'queue',
    'Queue',
    queueDepth ? `${grouped(queueDepth)} waiting` : '',
    queue.length === 0
      ? quietly(queueDepth ? 'Reading …' : 'Nobody waits.')
      : html`${table({
          label: 'Queue, in order',
          rowHeight: 36,
          rows: queue,
          keyOf: ({ owner, since }, index) => `${owner} ${Math.round(since / 1_000)} ${index}`,
          columns: [
            ['#', 'number quiet', (_, index) => index + 1],
            [
              'Owner',
              '',
              ({ owner, sessionId }) =>
                html`<b>${owner}</b>${sessionId && html` <small>session ${sessionId.slice(0, 6)}</small>`}`,
            ],
            [
              'Waits',
              'number',
              ({ since }) => html`<span title=${`since ${clockOf(since)}`}>${wholeSpanOf(now() - since)}</span>`,
            ],
            ['Permits', 'q-permits number', ({ permits }) => permits],
            ['Estimate', 'number', (_, index) => (estimate ? `~ ${wholeSpanOf(estimate(index + 1))}` : '–')],
          ],
        })}${hidden > 0 ? quietly(`and ${grouped(hidden)} behind them`) : nothing}`,
  );
}

function measuresPanel(lock: LockPicture): TemplateResult {
  const { meanHoldMs, meanWaitMs, weight, words, grants, heldShare, ended, longestWaitMs } = measuresOf(
    lock,
    windowMs,
    now(),
  );
  const against = (kind: string, ms: number | null) => html`<div class="against ${kind}">
    <span>Mean ${kind}</span>${bar((ms ?? 0) / Math.max(1, meanHoldMs ?? 0, meanWaitMs ?? 0))}
    <span class="number">${ms === null ? '–' : spanOf(ms)}</span>
  </div>`;
  return panel(
    'measures',
    'Wait against hold',
    `last ${spanOf(windowMs)}`,
    html`${against('wait', meanWaitMs)}${against('hold', meanHoldMs)}
      <p class="verdict ${weight}">${words}</p>
      ${facts(
        ['Grants', grouped(grants)],
        ['Held', `${Math.round(heldShare * 100)} % of the time`],
        ['Longest wait', spanOf(longestWaitMs)],
        ...endings.map((how, index) => [[mark(how), ' ', eventTitle(how)], grouped(ended[index] ?? 0)] as const),
      )}`,
  );
}

function historyPanel({ events, hasHistory }: LockPicture): TemplateResult {
  return panel(
    'history',
    'History',
    html`${events.length ? `${countOf(events.length, 'event')}, ` : ''}newest first; kept for seven days`,
    events.length === 0
      ? quietly(hasHistory ? 'Nothing is known of this lock.' : 'Reading …')
      : table({
          label: 'History, newest first',
          rowHeight: 34,
          rows: events.toReversed(),
          keyOf,
          columns: eventColumns,
        }),
  );
}
