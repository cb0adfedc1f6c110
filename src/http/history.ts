import * as z from 'zod';
import { historyView } from '../notify/change-events.ts';
import type { HistoryStore } from '../store/history-store.ts';
import type { Reply, Request } from './request.ts';
import { cursorText, integerText } from './schemas.ts';
import { validate } from './validation.ts';

export const historyQuery = z.strictObject({
  limit: integerText(1, 1_000, 'Events on a page.').default(50),
  cursor: cursorText.optional(),
});

/** A place in a history, as the notifier gives it. */
const place = z.string().regex(/^\d{16}\.\d{16}\.\d{4}$/, 'must be a cursor from an earlier page');

/** What happened to a lock in the last days, newest first. */
export async function lockHistory(history: HistoryStore, request: Request): Promise<Reply> {
  const key = { namespace: request.namespace, name: request.name() };
  const { limit, cursor } = request.query(historyQuery);
  const page = await history.page(key, { limit, before: cursor === undefined ? undefined : readCursor(cursor) });
  return {
    status: 200,
    body: {
      events: page.events.map(historyView),
      ...(page.before === undefined ? {} : { cursor: Buffer.from(page.before).toString('base64url') }),
    },
  };
}

const readCursor = (cursor: string): string =>
  validate(z.object({ cursor: place }), { cursor: Buffer.from(cursor, 'base64url').toString() }, 'cursor').cursor;
