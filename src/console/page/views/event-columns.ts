/** How a table shows events. */
import { html } from 'lit-html';
import { eventWords, type Happening } from '../../model/events.ts';
import { momentOf, spanOf } from '../../model/words.ts';
import { now } from '../draw.ts';
import { joined } from '../parts.ts';
import type { Column } from '../table.ts';
import { mark } from './marks.ts';

/** The other fields of an event. */
const detailsOf = ({ waitedMs, heldMs, reason }: Happening): string =>
  joined(waitedMs ? `waited ${spanOf(waitedMs)}` : '', heldMs !== undefined && `held ${spanOf(heldMs)}`, reason);

export const eventColumns: readonly [Column<Happening>, Column<Happening>, Column<Happening>] = [
  ['At', 'number', ({ at }) => momentOf(at, now())],
  [
    'Event',
    'e-what',
    (event) =>
      html`${mark(event.type)}<b>${event.owner}</b> ${eventWords[event.type]}<small>${detailsOf(event)}</small>`,
  ],
  ['Fence', 'e-fence number', ({ fence }) => fence],
];
