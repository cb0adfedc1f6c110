/** Small drawings: marks of events, the bar of a lease, and the last minutes of a lock. */
import { html, type SVGTemplateResult, svg, type TemplateResult } from 'lit-html';
import type { EventType } from '../../model/events.ts';
import { type HolderPicture, isHeld, type LockPicture } from '../../model/lock-picture.ts';
import { type HoldBar, timelineOf, type WaitBar } from '../../model/timeline.ts';
import { wholeSpanOf } from '../../model/words.ts';
import { now } from '../draw.ts';

/** Each kind of event has its own shape, because not everybody can see colours. */
export type MarkName = EventType | HoldBar['end'] | WaitBar['end'] | 'free';

const disc = 'M-4.2 0a4.2 4.2 0 1 1 0 .1Z';
const circle = 'M-3.4 0a3.4 3.4 0 1 1 0 .1Z';

/** The shapes are drawn around the origin, at most 5 to each side. The style sheet says which are hollow and which are lines. */
const shapes: Readonly<Record<MarkName, string>> = {
  granted: disc,
  holding: disc,
  free: circle,
  queued: circle,
  waiting: circle,
  released: 'M-4 .2-1.2 3.2 4.2-3.2',
  expired: 'M0-5 4.8 4h-9.6Z',
  revoked: 'M-3.6-3.6 3.6 3.6M3.6-3.6-3.6 3.6',
  'session-lost': 'M0-5 5 0 0 5-5 0Z',
  'wait-cancelled': 'M0-4.4 4.4 0 0 4.4-4.4 0Z',
  'wait-timeout': 'M0-4.4 4.2 3.4h-8.4Z',
  unseen: 'M-4 0h2M-1 0h2M2 0h2',
};

/** The shape in a drawing, with its own background. */
export const shapeAt = (name: MarkName, x: string, y: number): SVGTemplateResult =>
  svg`<g class="mark ${name}" transform="translate(${x} ${y})"><circle r="7"/><path d=${shapes[name]} /></g>`;

/** The shape in text. The words beside it say the same. */
export const mark = (name: MarkName): TemplateResult =>
  html`<svg class="mark ${name}" viewBox="-6 -6 12 12" width="12" height="12" aria-hidden="true"><path d=${shapes[name]} /></svg>`;

export const stateMark = (lock: LockPicture): TemplateResult => mark(isHeld(lock) ? 'holding' : 'free');

/** If less than this part is left, the lease will soon end or be renewed. */
const lowShare = 0.2;

/** The remaining time of a lease, as a bar that gets shorter. */
export function leaseBar({ endsAt, leaseMs, sessionId }: HolderPicture): TemplateResult {
  const leftMs = Math.max(0, (endsAt ?? 0) - now());
  const share = Math.min(1, leftMs / (leaseMs || leftMs || 1));
  const how = endsAt === null ? 'open' : leftMs === 0 ? 'over' : share < lowShare ? 'low' : '';
  const words = endsAt === null ? (sessionId ? 'with its session' : '…') : leftMs ? wholeSpanOf(leftMs) : 'ran out';
  return html`<span class="lease ${how}"><small>${words}</small>${bar(share)}</span>`;
}

export const bar = (share: number): TemplateResult =>
  html`<i><b .style=${`transform:scaleX(${share.toFixed(3)})`}></b></i>`;

export const px = (pixels: number): string => pixels.toFixed(1);

/** The beginning of a text, if all of it does not fit. */
export const short = (text: string, max: number): string => (text.length <= max ? text : `${text.slice(0, max - 1)}…`);

/** The length of a queue over time, as an area on a base line. */
export function stepsOf(
  depths: readonly { readonly at: number; readonly depth: number }[],
  x: (at: number) => number,
  base: number,
  height: number,
): string {
  const most = Math.max(1, ...depths.map(({ depth }) => depth));
  const steps = depths.map(({ at, depth }) => `H${px(x(at))}V${px(base - (depth / most) * height)}`);
  return `M0 ${base}${steps.join('')}V${base}Z`;
}

const lastMs = 5 * 60_000;
const width = 160;
const height = 26;
const holdHeight = 7;
const base = height - holdHeight;

/** A small picture of a lock's last minutes: when it was held, and how many waited. */
export function lastMinutes(lock: LockPicture): TemplateResult {
  // Whole seconds: in less time, the picture moves by less than a pixel.
  const { from, holds, depths } = timelineOf(lock, lastMs, Math.ceil(now() / 1_000) * 1_000);
  const x = (at: number) => Math.max(0, Math.min(width, ((at - from) / lastMs) * width));
  const bars = holds.map((hold) => {
    const wide = px(Math.max(0.8, x(hold.to) - x(hold.from)));
    return `M${px(x(hold.from))} ${base}h${wide}v${holdHeight}h-${wide}z`;
  });
  return html`<svg class="minutes" viewBox="0 0 ${width} ${height}" height=${height} aria-hidden="true" preserveAspectRatio="none">
    <path class="base" d="M0 ${height - holdHeight / 2}H${width}" />
    <path class="area" d=${stepsOf(depths, x, base - 2, base - 4)} />
    <path d=${bars.join('')} />
  </svg>`;
}
