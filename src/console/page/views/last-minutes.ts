/** A small picture of a lock's last minutes: when it was held, and how many waited. */
import { html, type TemplateResult } from 'lit-html';
import type { LockPicture } from '../../model/lock-picture.ts';
import { timelineOf } from '../../model/timeline.ts';
import { now } from '../draw.ts';
import { px, stepsOf } from './lines.ts';

const lastMs = 5 * 60_000;
const width = 160;
const height = 26;
const holdHeight = 7;
const base = height - holdHeight;

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
