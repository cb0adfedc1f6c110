import type { Operation } from '../contract/operations.ts';
import { lockHandlers } from './locks.ts';
import { multiLockHandlers } from './multi-locks.ts';
import { openApiDocument } from './openapi.ts';
import { recordHandlers } from './records.ts';
import type { Input, Reply } from './request.ts';
import type { Service } from './service.ts';
import { sessionHandlers } from './sessions.ts';
import { ticketHandlers } from './tickets.ts';

/** The handler of each operation. The type makes a missing handler a compile error. */
export type Handlers<Names extends Operation = Operation> = {
  readonly [Name in Names]: (service: Service, input: Input<Name>) => Promise<Reply>;
};

const serviceHandlers: Handlers<'health' | 'openapi'> = {
  health: async ({ probe, version, engine }) => {
    await probe();
    return { status: 200, body: { status: 'ok', version, engine } };
  },
  openapi: async ({ version }) => ({ status: 200, body: openApiDocument(version) }),
};

export const handlers: Handlers = {
  ...serviceHandlers,
  ...lockHandlers,
  ...multiLockHandlers,
  ...sessionHandlers,
  ...recordHandlers,
  ...ticketHandlers,
};
