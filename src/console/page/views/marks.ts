/** One shape for each kind of event: colour alone does not reach everybody. */
import { html, type SVGTemplateResult, svg, type TemplateResult } from 'lit-html';
import type { EventType } from '../../model/events.ts';
import type { HoldBar, WaitBar } from '../../model/timeline.ts';

export type MarkName = EventType | HoldBar['end'] | WaitBar['end'] | 'free';

/** Drawn around the origin, within 5 to each side. */
const shapes: Readonly<Record<MarkName, SVGTemplateResult>> = {
  granted: svg`<circle r="4.2"/>`,
  holding: svg`<circle r="4.2"/>`,
  free: svg`<circle r="3.4" class="hollow"/>`,
  queued: svg`<circle r="3.4" class="hollow"/>`,
  waiting: svg`<circle r="3.4" class="hollow"/>`,
  released: svg`<path d="M-4 .2 -1.2 3.2 4.2 -3.2" class="line"/>`,
  expired: svg`<path d="M0-5 4.8 4h-9.6Z"/>`,
  revoked: svg`<path d="M-3.6-3.6 3.6 3.6M3.6-3.6-3.6 3.6" class="line"/>`,
  'session-lost': svg`<path d="M0-5 5 0 0 5-5 0Z"/>`,
  'wait-cancelled': svg`<path d="M0-4.4 4.4 0 0 4.4-4.4 0Z" class="hollow"/>`,
  'wait-timeout': svg`<path d="M0-4.4 4.2 3.4h-8.4Z" class="hollow"/>`,
  unseen: svg`<path d="M-4 0h2M-1 0h2M2 0h2" class="line"/>`,
};

export const shapeOf = (name: MarkName): SVGTemplateResult => shapes[name];

/** The shape among text, where the words beside it say the same. */
export const mark = (name: MarkName): TemplateResult =>
  html`<svg class="mark ${name}" viewBox="-6 -6 12 12" width="12" height="12" aria-hidden="true">${shapes[name]}</svg>`;
