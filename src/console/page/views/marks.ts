/** One shape for each kind of event, because not everybody can see colours. */
import { html, type SVGTemplateResult, svg, type TemplateResult } from 'lit-html';
import type { EventType } from '../../model/events.ts';
import { isHeld, type LockPicture } from '../../model/lock-picture.ts';
import type { HoldBar, WaitBar } from '../../model/timeline.ts';

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
