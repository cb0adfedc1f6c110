/** Who held a lock and who waited for it, drawn over time and growing live. */
import { html, nothing, type SVGTemplateResult, svg, type TemplateResult } from 'lit-html';
import { ref } from 'lit-html/directives/ref.js';
import type { LockPicture } from '../../model/lock-picture.ts';
import { type HoldBar, type Timeline, timelineOf, type WaitBar } from '../../model/timeline.ts';
import { clockOf, countOf, grouped, spanOf } from '../../model/words.ts';
import type { App } from '../app.ts';
import { type MarkName, mark, shapeOf } from './marks.ts';

const windows: readonly { readonly ms: number; readonly title: string }[] = [
  { ms: 60_000, title: '1 min' },
  { ms: 5 * 60_000, title: '5 min' },
  { ms: 15 * 60_000, title: '15 min' },
  { ms: 3_600_000, title: '1 h' },
  { ms: 6 * 3_600_000, title: '6 h' },
];

const legend: readonly { readonly name: MarkName; readonly title: string }[] = [
  { name: 'holding', title: 'holds' },
  { name: 'released', title: 'released' },
  { name: 'expired', title: 'expired' },
  { name: 'revoked', title: 'revoked' },
  { name: 'session-lost', title: 'session lost' },
  { name: 'wait-timeout', title: 'waited in vain' },
  { name: 'wait-cancelled', title: 'left the queue' },
];

const holdLane = 28;
const waitLane = 16;
const caption = 20;
const depthHeight = 34;
const fenceHeight = 40;
const axisHeight = 22;
/** Room at the right for the mark of what ends just now. */
const margin = 10;

let width = 800;
let observed: Element | undefined;
let observer: ResizeObserver | undefined;

function measure(element: Element | undefined, redraw: () => void): void {
  if (element === observed) return;
  observer?.disconnect();
  observed = element;
  if (element === undefined) return;
  observer = new ResizeObserver(([entry]) => {
    const now = Math.round(entry?.contentRect.width ?? 0);
    if (now === 0 || now === width) return;
    width = now;
    redraw();
  });
  observer.observe(element);
}

/** Where each zone begins. All heights follow from the lanes, of which there are always as many as there were at most. */
interface Zones {
  readonly held: number;
  readonly waited: number;
  readonly depth: number;
  readonly fence: number;
  readonly axis: number;
  readonly height: number;
}

const lanesSeen = new Map<string, { hold: number; wait: number }>();

/** Lanes that were drawn stay, empty or not, so that nothing below jumps when a waiter leaves. */
function lanesOf(app: App, lock: string, { holdLanes, waitLanes }: Timeline) {
  const key = `${app.route.namespace} ${lock} ${app.windowMs}`;
  const seen = lanesSeen.get(key) ?? { hold: 1, wait: 3 };
  const lanes = { hold: Math.max(seen.hold, holdLanes), wait: Math.max(seen.wait, waitLanes) };
  if (lanesSeen.size > 50) lanesSeen.clear();
  lanesSeen.set(key, lanes);
  return lanes;
}

function zonesOf(lanes: { readonly hold: number; readonly wait: number }): Zones {
  const held = caption;
  const waited = held + lanes.hold * holdLane + caption;
  const depth = waited + lanes.wait * waitLane + caption;
  const fence = depth + depthHeight + caption;
  const axis = fence + fenceHeight + 4;
  return { held, waited, depth, fence, axis, height: axis + axisHeight };
}

export function timelineView(app: App, lock: LockPicture, now: number): TemplateResult {
  const line = timelineOf(lock, app.windowMs, now);
  const lanes = lanesOf(app, lock.lock, line);
  const zones = zonesOf(lanes);
  const x = (at: number) => Math.max(0, ((at - line.from) / app.windowMs) * (width - margin));
  return html`<section class="panel timeline" aria-label="Timeline">
    <h2>
      Timeline
      <fieldset class="choice small">
        <legend>Time shown</legend>
        ${windows.map(
          ({ ms, title }) => html`<label
            ><input
              type="radio"
              name="window"
              .checked=${ms === app.windowMs}
              @change=${() => {
                app.windowMs = ms;
                app.redraw();
              }}
            /><span>${title}</span></label
          >`,
        )}
      </fieldset>
    </h2>
    <div class="drawing" ${ref((element) => measure(element, () => app.redraw()))}>
      <svg role="img" aria-label=${spoken(lock, line)} width=${width} height=${zones.height} viewBox="0 0 ${width} ${zones.height}">
        ${axis(line, zones, x)}
        ${captionOf('Held', zones.held)}
        ${line.holds.map((bar) => holdBar(bar, zones, x))}
        ${captionOf(line.waitsHidden > 0 ? `Waited, and ${grouped(line.waitsHidden)} more in the queue` : 'Waited', zones.waited)}
        ${line.waits.map((bar) => waitBar(bar, line, zones, x))}
        ${line.holds.map((bar) => endMark(bar, zones, x))}
        ${depthArea(line, zones, x)}
        ${fenceSteps(line, lock, zones, x)}
      </svg>
    </div>
    <ul class="legend">${legend.map(({ name, title }) => html`<li>${mark(name)}${title}</li>`)}</ul>
  </section>`;
}

const spoken = (lock: LockPicture, { holds, waits, waitsHidden, to, from }: Timeline): string =>
  `In the last ${spanOf(to - from)}, ${lock.lock} was held ${countOf(holds.length, 'time')} and waited for by ${grouped(
    waits.length + waitsHidden,
  )}. The history below lists each event.`;

const captionOf = (text: string, y: number): SVGTemplateResult =>
  svg`<text class="caption" x="0" y=${y - 7}>${text}</text>`;

type Scale = (at: number) => number;

/** Steps that people count in, so that about one label comes per 110 pixels. */
const stepsMs = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200].map((seconds) => seconds * 1_000);

function axis({ from, to }: Timeline, zones: Zones, x: Scale): SVGTemplateResult[] {
  const wanted = ((to - from) * 110) / Math.max(1, width);
  const step = stepsMs.find((ms) => ms >= wanted) ?? (stepsMs.at(-1) as number);
  const ticks: SVGTemplateResult[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const left = x(at);
    // A label that does not fit would be cut.
    const label =
      left > 24 && left < width - 30 ? svg`<text x=${left} y=${zones.axis + 15}>${clockOf(at)}</text>` : nothing;
    ticks.push(svg`<g class="tick"><path d="M${left.toFixed(1)} 4V${zones.axis}" />${label}</g>`);
  }
  return ticks;
}

/** About the width of a letter of a label. */
const letter = 6.6;
const fitted = (text: string, pixels: number): string => {
  const letters = Math.floor(pixels / letter);
  if (letters < 3) return '';
  return text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
};

const endWords: Readonly<Record<HoldBar['end'], string>> = {
  holding: 'holds it now',
  released: 'released',
  expired: 'expired',
  revoked: 'revoked',
  'session-lost': 'lost its session',
  unseen: 'how it ended was not seen',
};

function holdBar({ owner, fence, from, to, end, lane, reason }: HoldBar, zones: Zones, x: Scale): SVGTemplateResult {
  const left = x(from);
  const right = Math.max(left + 2, x(to));
  const y = zones.held + lane * holdLane;
  const until = end === 'holding' ? 'now' : clockOf(to);
  const why = reason === undefined ? '' : ` (${reason})`;
  return svg`<g class="hold ${end}">
    <title>${owner}, fence ${fence}: ${clockOf(from)} to ${until}, ${spanOf(to - from)}, ${endWords[end]}${why}</title>
    <rect x=${left.toFixed(1)} y=${y} width=${(right - left).toFixed(1)} height="20" rx="3" />
    <text x=${(left + 6).toFixed(1)} y=${y + 14}>${fitted(owner, right - left - 20)}</text>
  </g>`;
}

/** Drawn after all bars, so that none hides it. A release is what one expects: on a short bar it would only be in the way. */
function endMark({ from, to, end, lane }: HoldBar, zones: Zones, x: Scale): SVGTemplateResult | typeof nothing {
  const isUsual = end === 'released' && x(to) - x(from) < 22;
  if (end === 'holding' || isUsual) return nothing;
  const place = `translate(${x(to).toFixed(1)} ${zones.held + lane * holdLane + 10})`;
  return svg`<g class="mark ${end}" transform=${place}><circle r="7" class="halo"/>${shapeOf(end)}</g>`;
}

function waitBar(
  { owner, from, to, end, lane, fence, reason }: WaitBar,
  line: Timeline,
  zones: Zones,
  x: Scale,
): SVGTemplateResult {
  const left = x(from);
  const right = Math.max(left + 1.5, x(to));
  const y = zones.waited + lane * waitLane;
  const how = {
    granted: 'then got the lock',
    waiting: 'waits now',
    'wait-timeout': 'in vain',
    'wait-cancelled': 'then left',
  }[end];
  const words = `${owner} waited from ${clockOf(from)} for ${spanOf(to - from)}, ${how}${reason === undefined ? '' : ` (${reason})`}`;
  const hold = end === 'granted' ? line.holds.find((bar) => bar.fence === fence) : undefined;
  return svg`<g class="wait ${end}">
    <title>${words}</title>
    ${hold === undefined ? nothing : svg`<path class="hand-off" d="M${right.toFixed(1)} ${y + 6}V${zones.held + hold.lane * holdLane + 20}" />`}
    <rect x=${left.toFixed(1)} y=${y} width=${(right - left).toFixed(1)} height="12" rx="2" />
    <text x=${(left + 5).toFixed(1)} y=${y + 9.5}>${fitted(owner, right - left - 12)}</text>
    ${
      end === 'granted' || end === 'waiting'
        ? nothing
        : svg`<g class="mark ${end}" transform="translate(${right.toFixed(1)} ${y + 6})"><circle r="6" class="halo"/>${shapeOf(end)}</g>`
    }
  </g>`;
}

function depthArea({ depths }: Timeline, zones: Zones, x: Scale): SVGTemplateResult {
  const most = Math.max(1, ...depths.map(({ depth }) => depth));
  const base = zones.depth + depthHeight;
  const y = (depth: number) => base - (depth / most) * (depthHeight - 2);
  const steps = depths.map(({ at, depth }) => `H${x(at).toFixed(1)}V${y(depth).toFixed(1)}`).join('');
  const last = depths.at(-1)?.depth ?? 0;
  return svg`<g class="depth">
    <text class="caption" x="0" y=${zones.depth - 7}>Length of the queue: ${grouped(last)} now, ${grouped(Math.max(...depths.map(({ depth }) => depth)))} at most</text>
    <path class="base" d="M0 ${base}H${width - margin}" />
    <path class="area" d="M0 ${base}${steps}V${base}Z" />
  </g>`;
}

/** One step for each grant. Fences rise by one; after a long rest a lock starts again at a far higher one, which is one step too. */
function fenceSteps({ fences }: Timeline, lock: LockPicture, zones: Zones, x: Scale): SVGTemplateResult {
  const base = zones.fence + fenceHeight;
  const y = (index: number) => base - 3 - (index / Math.max(1, fences.length)) * (fenceHeight - 6);
  const steps = fences.map(({ at }, index) => `H${x(at).toFixed(1)}V${y(index + 1).toFixed(1)}`).join('');
  const first = fences[0]?.fence;
  const words =
    fences.length === 0
      ? `Fence: ${lock.fence}, no grant in this time`
      : `Fence: rose ${countOf(fences.length, 'time')}, from ${first} to ${fences.at(-1)?.fence}`;
  const dots = fences.length > dotsMax ? [] : fences;
  return svg`<g class="fence">
    <text class="caption" x="0" y=${zones.fence - 7}>${words}</text>
    <path d="M0 ${y(0).toFixed(1)}${steps}H${width - margin}" />
    ${dots.map(({ at, fence }, index) => svg`<circle cx=${x(at).toFixed(1)} cy=${y(index + 1).toFixed(1)} r="2.6"><title>${fence}, granted at ${clockOf(at)}</title></circle>`)}
  </g>`;
}

/** With more, dots lie upon each other. */
const dotsMax = 60;
