/** A small picture of a lock's last minutes: when it was held, and how many waited. */
import { html, nothing, type SVGTemplateResult, svg, type TemplateResult } from 'lit-html';
import type { LockPicture } from '../../model/lock-picture.ts';
import { timelineOf } from '../../model/timeline.ts';

const lastMs = 5 * 60_000;
const width = 160;
const height = 26;
const holdHeight = 7;
const waitHeight = height - holdHeight - 4;

export function lastMinutes(lock: LockPicture, now: number): TemplateResult {
  // To the second: a picture that moves by less than a pixel need not be drawn again.
  const line = timelineOf(lock, lastMs, Math.ceil(now / 1_000) * 1_000);
  const x = (at: number) => Math.max(0, Math.min(width, ((at - line.from) / lastMs) * width));
  const holds = line.holds
    .map(({ from, to }) => {
      const [left, right] = [x(from), x(to)];
      return `M${left.toFixed(1)} ${height - holdHeight}h${Math.max(0.8, right - left).toFixed(1)}v${holdHeight}h-${Math.max(0.8, right - left).toFixed(1)}z`;
    })
    .join('');
  const most = Math.max(1, ...line.depths.map(({ depth }) => depth));
  const y = (depth: number) => height - holdHeight - 2 - (depth / most) * waitHeight;
  const depths = line.depths.map(({ at, depth }) => `H${x(at).toFixed(1)}V${y(depth).toFixed(1)}`).join('');
  return html`<svg class="minutes" viewBox="0 0 ${width} ${height}" width=${width} height=${height} aria-hidden="true" preserveAspectRatio="none">
    <path class="base" d="M0 ${height - holdHeight / 2}H${width}" />
    ${line.depths.some(({ depth }) => depth > 0) ? waitArea(depths, y(0)) : nothing}
    ${svgPath('held', holds)}
  </svg>`;
}

const svgPath = (name: string, d: string): SVGTemplateResult => svg`<path class=${name} d=${d} />`;

const waitArea = (steps: string, base: number): SVGTemplateResult =>
  svgPath('waited', `M0 ${base.toFixed(1)}${steps}V${base.toFixed(1)}Z`);
