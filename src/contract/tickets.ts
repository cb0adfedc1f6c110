/** The operation that gives a ticket for a WebSocket connection. */
import * as z from 'zod';
import { ms } from './fields.ts';
import type { OperationContract } from './operation.ts';

const ticketIssued = z
  .object({
    ticket: z.string().describe('Secret: it gives the right to open one connection.'),
    url: z.string().describe('The address of the WebSocket. Add the ticket as a query parameter.'),
    expiresInMs: ms,
  })
  .meta({ title: 'Ticket' });

export const ticketOperations = {
  createTicket: {
    route: 'POST /v1/{ns}/tickets',
    // Watching only reads. A parked waiter also needs the right to acquire.
    access: 'inspect',
    summary:
      'Gives a ticket that opens one WebSocket connection of this namespace, once, within a minute. Connect to the url with ?ticket=…. Add lock=… or prefix=… to watch.',
    body: z.strictObject({}),
    answers: { 201: ticketIssued },
    problems: ['not-found'],
  },
} as const satisfies Record<string, OperationContract>;
