/** Draws the holders and waiters of a lock over time. It is redrawn as time passes. */
import { html, nothing, render, type SVGTemplateResult, svg, type TemplateResult } from 'lit-html';
import { brokenWaits, endings, eventTitle } from '../../model/events.ts';
import type { LockPicture } from '../../model/lock-picture.ts';
import { type HoldBar, type Timeline, timelineOf, type WaitBar } from '../../model/timeline.ts';
import { clockOf, countOf, grouped, spanOf } from '../../model/words.ts';
import { now, redraw } from '../draw.ts';
import { choice, panel } from '../parts.ts';
import { name, namespace } from '../route.ts';
import { mark, px, shapeAt, short, stepsOf } from './drawings.ts';

const windows = [1, 5, 15, 60, 360].map((minutes) => [minutes * 60_000, spanOf(minutes * 60_000)] as const);
/** The time that is shown. */
export let windowMs = 5 * 60_000;

const holdLane = 28;
const waitLane = 16;
const caption = 20;
const depthHeight = 34;
const fenceHeight = 40;
const axisHeight = 22;
/** Space at the right for the mark of an end that has just happened. */
const margin = 10;

let width = 800;
const drawing = document.createElement('div');
drawing.className = 'drawing';
new ResizeObserver(() => {
  width = drawing.clientWidth || width;
  redraw();
}).observe(drawing);

/** Where each zone begins. The heights depend on the number of lanes, which never becomes smaller. */
type Zones = readonly [held: number, waited: number, depth: number, fence: number, axis: number];

const lanesSeen = new Map<string, readonly [hold: number, wait: number]>();

/** Lanes stay even if they become empty, so that nothing below jumps when a waiter leaves. */
function zonesOf({ holdLanes, waitLanes }: Timeline): Zones {
  const key = [namespace, name, windowMs].join();
  const [hold, wait] = lanesSeen.get(key) ?? [1, 3];
  const lanes = [Math.max(hold, holdLanes), Math.max(wait, waitLanes)] as const;
  if (lanesSeen.size > 50) lanesSeen.clear();
  lanesSeen.set(key, lanes);
  const waited = caption + lanes[0] * holdLane + caption;
  const depth = waited + lanes[1] * waitLane + caption;
  const fence = depth + depthHeight + caption;
  return [caption, waited, depth, fence, fence + fenceHeight + 4];
}

export function timelineView(lock: LockPicture): TemplateResult {
  const line = timelineOf(lock, windowMs, now());
  const { holds, waits, waitsHidden, from } = line;
  const zones = zonesOf(line);
  const [held, waited, depth, fence, bottom] = zones;
  const height = bottom + axisHeight;
  const x = (at: number) => Math.max(0, ((at - from) / windowMs) * (width - margin));
  const words = `In the last ${spanOf(windowMs)}, ${lock.lock} was held ${countOf(holds.length, 'time')} and waited for by ${grouped(
    waits.length + waitsHidden,
  )}. The history below lists each event.`;
  render(
    html`<svg role="img" aria-label=${words} width=${width} height=${height} viewBox="0 0 ${width} ${height}">
      ${axis(line, bottom, x)}
      ${captionOf('Held', held)}
      ${holds.map((bar) => holdBar(bar, zones, x))}
      ${captionOf(waitsHidden > 0 ? `Waited, and ${grouped(waitsHidden)} more in the queue` : 'Waited', waited)}
      ${waits.map((bar) => waitBar(bar, holds, zones, x))}
      ${holds.map((bar) => endMark(bar, zones, x))}
      ${depthArea(line, depth, x)}
      ${fenceSteps(line, lock, fence, x)}
    </svg>`,
    drawing,
  );
  const choose = (ms: number) => {
    windowMs = ms;
    redraw();
  };
  return panel(
    'timeline',
    'Timeline',
    '',
    html`${drawing}
      <ul class="legend">${(['holding', ...endings, ...brokenWaits] as const).map((how) => html`<li>${mark(how)}${eventTitle(how)}</li>`)}</ul>`,
    choice('Time shown', 'small', windows, (ms) => ms === windowMs, choose),
  );
}

const captionOf = (text: string, y: number): SVGTemplateResult => svg`<text class="caption" y=${y - 7}>${text}</text>`;

type Scale = (at: number) => number;

/** Usual steps of time, chosen so that there is about one label per 110 pixels. */
const stepsMs = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200].map((seconds) => seconds * 1_000);

function axis({ from, to }: Timeline, bottom: number, x: Scale): SVGTemplateResult[] {
  const step = stepsMs.find((ms) => ms * width >= windowMs * 110) ?? windowMs;
  const ticks: SVGTemplateResult[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const left = x(at);
    // A label that does not fit would be cut.
    const label = left > 24 && left < width - 30 ? clockOf(at) : '';
    ticks.push(
      svg`<g class="tick"><path d="M${px(left)} 4V${bottom}" /><text x=${left} y=${bottom + 15}>${label}</text></g>`,
    );
  }
  return ticks;
}

/** About the width of a letter of a label. */
const letter = 6.6;
const fitted = (text: string, pixels: number): string => {
  const letters = Math.floor(pixels / letter);
  return letters < 3 ? '' : short(text, letters);
};

/** A bar with its label, and with a text that appears when the pointer is on it. */
function barOf(
  kind: string,
  words: string,
  owner: string,
  left: number,
  right: number,
  y: number,
  height: number,
  more: unknown = nothing,
): SVGTemplateResult {
  return svg`<g class=${kind}>
    <title>${words}</title>${more}
    <rect x=${px(left)} y=${y} width=${px(right - left)} height=${height} rx="3" />
    <text x=${px(left + 5)} y=${y + height * 0.5 + 4}>${fitted(owner, right - left - height)}</text>
  </g>`;
}

function holdBar({ owner, fence, from, to, end, lane, reason }: HoldBar, [held]: Zones, x: Scale): SVGTemplateResult {
  const left = x(from);
  const how = { holding: 'holds it now', unseen: 'how it ended was not seen' }[end as string] ?? eventTitle(end);
  const words = `${owner}, fence ${fence}: from ${clockOf(from)} for ${spanOf(to - from)}, ${how}${why(reason)}`;
  return barOf(`hold ${end}`, words, owner, left, Math.max(left + 2, x(to)), held + lane * holdLane, 20);
}

const why = (reason?: string): string => (reason ? ` (${reason})` : '');

/** Drawn after all bars, so that no bar hides it. A short bar has no mark for a release, which is the usual end. */
function endMark({ from, to, end, lane }: HoldBar, [held]: Zones, x: Scale): SVGTemplateResult | typeof nothing {
  const isUsual = end === 'holding' || (end === 'released' && x(to) - x(from) < 22);
  return isUsual ? nothing : shapeAt(end, px(x(to)), held + lane * holdLane + 10);
}

function waitBar(
  { owner, from, to, end, lane, fence, reason }: WaitBar,
  holds: readonly HoldBar[],
  [held, waited]: Zones,
  x: Scale,
): SVGTemplateResult {
  const left = x(from);
  const right = Math.max(left + 1.5, x(to));
  const y = waited + lane * waitLane;
  const how = {
    granted: 'then got the lock',
    waiting: 'waits now',
    'wait-timeout': 'then gave up',
    'wait-cancelled': 'then left',
  }[end];
  const hold = end === 'granted' && holds.find((bar) => bar.fence === fence);
  const more = hold
    ? svg`<path d="M${px(right)} ${y + 6}V${held + hold.lane * holdLane + 20}" />`
    : end === 'waiting' || end === 'granted'
      ? nothing
      : shapeAt(end, px(right), y + 6);
  const words = `${owner} waited from ${clockOf(from)} for ${spanOf(to - from)}, ${how}${why(reason)}`;
  return barOf(`wait ${end}`, words, owner, left, right, y, 12, more);
}

function depthArea({ depths }: Timeline, top: number, x: Scale): SVGTemplateResult {
  const base = top + depthHeight;
  const most = Math.max(...depths.map(({ depth }) => depth));
  const words = `Length of the queue: ${grouped(depths.at(-1)?.depth ?? 0)} now, ${grouped(most)} at most`;
  return svg`${captionOf(words, top)}
    <path class="base" d="M0 ${base}H${width - margin}" />
    <path class="area" d=${stepsOf(depths, x, base, depthHeight - 2)} />`;
}

/** More dots would overlap. */
const dotsMax = 60;

/**
 * One step for each grant. Fences rise by one. If the item of an idle lock was deleted, the next fence is much higher. That
 * is one step too.
 */
function fenceSteps({ fences }: Timeline, lock: LockPicture, top: number, x: Scale): SVGTemplateResult {
  const { length } = fences;
  const y = (index: number) => px(top + fenceHeight - 3 - (index / Math.max(1, length)) * (fenceHeight - 6));
  const steps = fences.map(({ at }, index) => `H${px(x(at))}V${y(index + 1)}`);
  const words = length
    ? `Fence: rose ${countOf(length, 'time')}, from ${fences[0]?.fence} to ${fences.at(-1)?.fence}`
    : `Fence: ${lock.fence}, no grant in this time`;
  const dots = length > dotsMax ? [] : fences;
  return svg`${captionOf(words, top)}
    <g class="fence">
      <path d="M0 ${y(0)}${steps.join('')}H${width - margin}" />
      ${dots.map(({ at, fence }, index) => svg`<circle cx=${px(x(at))} cy=${y(index + 1)} r="2.6"><title>${fence}, granted at ${clockOf(at)}</title></circle>`)}
    </g>`;
}
