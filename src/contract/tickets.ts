/** The operation that lets a WebSocket be opened. */
import * as z from 'zod';
import { ms } from './fields.ts';
import type { OperationContract } from './operation.ts';

export const ticketIssued = z.object({
  ticket: z.string().describe('Secret: the right to open one connection.'),
  url: z.string().describe('Where to connect to, with the ticket as a query parameter.'),
  expiresInMs: ms,
});

export const ticketOperations = {
  createTicket: {
    method: 'POST',
    path: '/v1/{ns}/tickets',
    // To watch is to look, and a waiter needs the right to acquire besides.
    access: 'inspect',
    summary:
      'Gives a ticket that opens one WebSocket connection of this namespace, once, within a minute: connect to the url with ?ticket=…. Add lock=… or prefix=… to watch.',
    body: z.strictObject({}),
    answers: { 201: ticketIssued },
    problems: ['not-found'],
  },
} as const satisfies Record<string, OperationContract>;
