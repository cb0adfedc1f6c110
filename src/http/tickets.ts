import type { ticketOperations } from '../contract/tickets.ts';
import type { TicketBody } from '../contract/views.ts';
import { issueTicket } from '../service/sockets.ts';
import type { Handlers } from './operations.ts';
import { Problem } from './problems.ts';

export const ticketHandlers: Handlers<keyof typeof ticketOperations> = {
  async createTicket({ locks, sockets }, { parameters, caller, host }) {
    if (sockets === undefined) throw new Problem('not-found', 'This service has no WebSocket.');
    const issued = await issueTicket(sockets.store, locks.clock, { namespace: parameters.ns, caller });
    const body: TicketBody = { ...issued, url: sockets.url(host) };
    return { status: 201, body };
  },
};
