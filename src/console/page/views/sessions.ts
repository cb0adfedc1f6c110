/** Sessions with their locks, and circles of waits. */
import { html, nothing, type SVGTemplateResult, svg, type TemplateResult } from 'lit-html';
import { type Cycle, cyclesOf, type Party, partiesOf, type Step } from '../../model/wait-graph.ts';
import { clockOf, countOf, wholeSpanOf } from '../../model/words.ts';
import { now } from '../draw.ts';
import { book, brokenCycles } from '../knowledge.ts';
import { empty, lockLink, panel, paragraph, quietly, top } from '../parts.ts';
import { addressOf, name } from '../route.ts';
import { table } from '../table.ts';
import { px, short } from './drawings.ts';

export function sessionsView(): TemplateResult {
  const parties = partiesOf(book);
  const sessions = [...parties.values()]
    .filter(({ sessionId }) => sessionId)
    .sort(
      (one, other) =>
        other.waits.length - one.waits.length || other.holds.length - one.holds.length || (one.id < other.id ? -1 : 1),
    );
  const shown = name ? sessions.filter(({ sessionId }) => sessionId === name) : sessions;
  const cycles = [...cyclesOf(parties), ...brokenCycles];
  return html`
    ${top(
      'Sessions',
      html`${countOf(sessions.length, 'session')} with locks or waits${name && html` · showing ${name} · <a href=${addressOf('sessions')}>show all</a>`}`,
    )}
    ${cycles.length ? cycles.map(cyclePanel) : paragraph('No waits form a circle.', 'note calm')}
    ${shown.length ? sessionTable(shown) : noSessions()}
  `;
}

const cyclePanel = ({ steps, brokenAt }: Cycle): TemplateResult =>
  panel(
    `cycle ${brokenAt ? 'broken' : 'stands'}`,
    brokenAt ? `Deadlock, broken at ${clockOf(brokenAt)}` : 'These wait for each other',
    '',
    html`<div class="cycle-body">
        ${cycleDrawing(steps)}
        <ol>
          ${steps.map(
            ({ owner, waitsFor }, index) =>
              html`<li><b>${owner}</b> waits for ${lockLink(waitsFor)}, which <b>${steps[(index + 1) % steps.length]?.owner}</b> holds</li>`,
          )}
        </ol>
      </div>
      ${quietly(explained(steps, brokenAt))}`,
  );

function explained(steps: readonly Step[], brokenAt?: number): string {
  if (brokenAt) return 'The service ended the wait that began last, so that the others could go on.';
  return steps.every(({ sessionId }) => sessionId)
    ? 'The service resolves a circle of sessions by ending the wait that began last.'
    : 'Without sessions, the service can’t see this circle. It ends when a lease or a wait ends.';
}

const size = 260;
const radius = 88;

/** The parties on a ring. Each has an arrow to the party that it waits for. */
function cycleDrawing(steps: readonly Step[]): TemplateResult {
  const turn = (2 * Math.PI) / steps.length;
  const gap = Math.min(0.46, 1.2 / steps.length);
  /** A point on the ring. Each party is one step from the next. */
  const at = (step: number, out = radius) =>
    [Math.sin, (angle: number) => -Math.cos(angle)].map((axis) => px(size / 2 + out * axis(step * turn))).join(' ');
  const arrow = ({ waitsFor }: Step, index: number): SVGTemplateResult =>
    svg`<path d="M${at(index + gap / turn)}A${radius} ${radius} 0 ${turn - 2 * gap > Math.PI ? 1 : 0} 1 ${at(index + 1 - gap / turn)}" marker-end="url(#arrow)" />
      <text transform="translate(${at(index + 0.5, radius + 8)})">${short(waitsFor, 14)}</text>`;
  const node = ({ owner }: Step, index: number): SVGTemplateResult =>
    svg`<g class="node" transform="translate(${at(index)})"><circle r="29" /><text y="4">${short(owner, 8)}</text><title>${owner}</title></g>`;
  const words = steps.map(({ owner, waitsFor }) => `${owner} waits for ${waitsFor}`).join(', ');
  return html`<svg class="ring" role="img" aria-label=${words} viewBox="0 0 ${size} ${size}" width=${size}>
    <marker id="arrow" viewBox="0 0 10 10" refX="7" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 10 5 0 10z" /></marker>
    ${steps.map(arrow)}${steps.map(node)}
  </svg>`;
}

const noSessions = (): TemplateResult =>
  empty(
    'No session holds or waits for a lock.',
    paragraph(
      html`A session is one keepalive for many locks: they all end with it. <code>holdfast session create</code> opens one, <code>locks.session()</code> in the SDK.`,
    ),
  );

/** The first few, and how many more there are. */
function several<T>(locks: readonly T[], show: (one: T) => TemplateResult): TemplateResult {
  if (!locks.length) return html`<span class="quiet">none</span>`;
  const shown = locks.slice(0, 4).map((one, index) => [index ? ', ' : '', show(one)]);
  return html`${shown}${locks.length > 4 ? html` <small>and ${locks.length - 4} more</small>` : nothing}`;
}

const sessionTable = (parties: readonly Party[]): TemplateResult =>
  table({
    label: 'Sessions',
    rowHeight: 56,
    rows: parties,
    keyOf: ({ id }) => id,
    columns: [
      ['Session', 's-who', ({ owner, sessionId }) => html`<b>${owner}</b><small class="number">${sessionId}</small>`],
      ['Holds', '', ({ holds }) => several(holds, ({ lock }) => lockLink(lock))],
      [
        'Waits for',
        's-waits',
        ({ waits }) =>
          several(
            waits,
            ({ lock, position, since }) =>
              html`${lockLink(lock)} <small>#${position}, ${wholeSpanOf(now() - since)}</small>`,
          ),
      ],
    ],
  });
