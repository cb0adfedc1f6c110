/** Sessions with their locks, and circles of waits. */
import { html, nothing, type SVGTemplateResult, svg, type TemplateResult } from 'lit-html';
import { type Cycle, cyclesOf, type Party, partiesOf, type Step } from '../../model/wait-graph.ts';
import { clockOf, countOf, wholeSpanOf } from '../../model/words.ts';
import type { App } from '../app.ts';
import { longList } from '../long-list.ts';
import { addressOf } from '../route.ts';

export function sessionsView(app: App): TemplateResult {
  const parties = partiesOf(app.book);
  const sessions = [...parties.values()]
    .filter(({ sessionId }) => sessionId !== undefined)
    .sort(
      (one, other) =>
        other.waits.length - one.waits.length || other.holds.length - one.holds.length || (one.id < other.id ? -1 : 1),
    );
  const wanted = app.route.name;
  const shown = wanted === '' ? sessions : sessions.filter(({ sessionId }) => sessionId === wanted);
  const cycles = cyclesOf(parties);
  const now = app.now();
  return html`
    <div class="top">
      <h1 tabindex="-1">Sessions</h1>
      <p class="quiet">${countOf(sessions.length, 'session')} with locks or waits${wanted === '' ? nothing : html` · showing ${wanted} · <a href=${addressOf({ namespace: app.route.namespace, view: 'sessions' })}>show all</a>`}</p>
    </div>
    ${cyclePanels(app, cycles)}
    ${shown.length === 0 ? noSessions() : sessionList(app, shown, now)}
  `;
}

function cyclePanels(app: App, cycles: readonly Cycle[]): TemplateResult {
  const known = [...cycles, ...app.brokenCycles];
  if (known.length === 0) return html`<p class="note calm">No waits form a circle.</p>`;
  return html`<div class="cycles">${known.map((cycle) => cyclePanel(app, cycle))}</div>`;
}

function cyclePanel(app: App, cycle: Cycle): TemplateResult {
  const { steps, brokenAt } = cycle;
  const byName = steps.some(({ sessionId }) => sessionId === undefined);
  return html`<section class="panel cycle ${brokenAt === undefined ? 'stands' : 'broken'}" aria-label=${`Circle of ${steps.map(({ owner }) => owner).join(', ')}`}>
    <h2>${brokenAt === undefined ? 'These wait for each other' : `Deadlock, broken at ${clockOf(brokenAt)}`}</h2>
    <div class="cycle-body">
      ${cycleDrawing(steps)}
      <ol>
        ${steps.map((step, index) => {
          const next = steps[(index + 1) % steps.length] as Step;
          return html`<li>
            <b>${step.owner}</b> waits for
            <a href=${addressOf({ namespace: app.route.namespace, view: 'locks', name: step.waitsFor })}>${step.waitsFor}</a>,
            which <b>${next.owner}</b> holds
          </li>`;
        })}
      </ol>
    </div>
    <p class="quiet">${explained(brokenAt !== undefined, byName)}</p>
  </section>`;
}

function explained(isBroken: boolean, byName: boolean): string {
  if (isBroken) return 'The service refused the wait of the one that queued last, so that the others could go on.';
  if (byName) {
    return 'Put together by the names of the owners. Without a session the service can’t see this circle: it ends when a lease or a wait runs out.';
  }
  return 'The service breaks a circle of sessions by refusing the wait that came last.';
}

const size = 260;
const radius = 88;
const middle = size / 2;

/** The parties on a ring, each with an arrow to the one that it waits for. */
function cycleDrawing(steps: readonly Step[]): TemplateResult {
  const angle = (index: number) => (index / steps.length) * 2 * Math.PI - Math.PI / 2;
  const at = (turn: number, out = radius) => ({ x: middle + out * Math.cos(turn), y: middle + out * Math.sin(turn) });
  const gap = Math.min(0.46, 1.2 / steps.length);
  const arrow = (step: Step, index: number): SVGTemplateResult => {
    const [start, end] = [at(angle(index) + gap), at(angle(index + 1) - gap)];
    const label = at(angle(index + 0.5), radius + 8);
    const large = (2 * Math.PI) / steps.length - 2 * gap > Math.PI ? 1 : 0;
    return svg`<g class="arrow">
      <path d="M${start.x.toFixed(1)} ${start.y.toFixed(1)}A${radius} ${radius} 0 ${large} 1 ${end.x.toFixed(1)} ${end.y.toFixed(1)}" marker-end="url(#arrow)" />
      <text x=${label.x.toFixed(1)} y=${label.y.toFixed(1)}>${short(step.waitsFor)}</text>
    </g>`;
  };
  const node = (step: Step, index: number): SVGTemplateResult => {
    const { x, y } = at(angle(index));
    return svg`<g class="node" transform="translate(${x.toFixed(1)} ${y.toFixed(1)})"><circle r="29" /><text y="4">${short(step.owner, 8)}</text><title>${step.owner}</title></g>`;
  };
  const words = steps.map(({ owner, waitsFor }) => `${owner} waits for ${waitsFor}`).join(', ');
  return html`<svg class="ring" role="img" aria-label=${words} viewBox="0 0 ${size} ${size}" width=${size} height=${size}>
    <defs><marker id="arrow" viewBox="0 0 10 10" refX="7" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" /></marker></defs>
    ${steps.map(arrow)} ${steps.map(node)}
  </svg>`;
}

const short = (text: string, max = 14): string => (text.length <= max ? text : `${text.slice(0, max - 1)}…`);

const noSessions = (): TemplateResult => html`<div class="empty">
  <h2>No session holds or waits for a lock.</h2>
  <p>A session is one keepalive for many locks: they all end with it. <code>holdfast session create</code> opens one, <code>locks.session()</code> in the SDK.</p>
</div>`;

const rowHeight = 56;

function sessionList(app: App, parties: readonly Party[], now: number): TemplateResult {
  const { namespace } = app.route;
  const lockLink = (lock: string) => html`<a href=${addressOf({ namespace, view: 'locks', name: lock })}>${lock}</a>`;
  const several = <T extends { readonly lock: string }>(locks: readonly T[], show: (one: T) => TemplateResult) =>
    locks.length === 0
      ? html`<span class="quiet">none</span>`
      : html`${locks.slice(0, 4).map((one, index) => html`${index > 0 ? ', ' : ''}${show(one)}`)}${locks.length > 4 ? html` <small>and ${locks.length - 4} more</small>` : nothing}`;
  const head = html`
    <span role="columnheader" class="s-who">Session</span>
    <span role="columnheader" class="s-holds">Holds</span>
    <span role="columnheader" class="s-waits">Waits for</span>
  `;
  return longList({
    id: `sessions ${namespace}`,
    label: 'Sessions',
    rowHeight,
    keys: parties.map(({ id }) => id),
    head,
    redraw: () => app.redraw(),
    row: (index) => {
      const { owner, sessionId, holds, waits } = parties[index] as Party;
      return html`
        <span role="cell" class="s-who"><b>${owner}</b><small class="number">${sessionId}</small></span>
        <span role="cell" class="s-holds">${several(holds, ({ lock }) => lockLink(lock))}</span>
        <span role="cell" class="s-waits">${several(waits, ({ lock, position, since }) => html`${lockLink(lock)} <small>#${position}, ${wholeSpanOf(now - since)}</small>`)}</span>
      `;
    },
  });
}
