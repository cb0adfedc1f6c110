/** What callers see without changing anything: one lock, the locks of a namespace, and the history of a lock. */
import type { Facts } from '../lock/commands.ts';
import { grantOf } from '../lock/events.ts';
import type { LockKey, LockState } from '../lock/state.ts';
import { standingHolders } from '../lock/view.ts';
import { withPages } from '../queue/finding.ts';
import type { HistoryPage, HistoryPageAsked, HistoryStore } from '../store/history.ts';
import { defined } from '../tools/collections.ts';
import type { Answered } from './apply.ts';
import { factsAbout, type LockContext } from './context.ts';

export interface Listed {
  readonly locks: readonly { readonly name: string; readonly state: LockState; readonly facts: Facts }[];
  readonly after?: string;
}

/** Pages of the store read for one page of the answer. If few of many locks match, the answer is short, but not late. */
const pagesMax = 10;

/** Locks of a namespace by name. A page may be short, but a caller that follows the cursor gets every lock. */
export async function list(
  context: LockContext,
  namespace: string,
  page: { prefix: string; state?: 'held' | 'free' | undefined; after?: string | undefined; limit: number },
): Promise<Listed> {
  const locks: { name: string; state: LockState; facts: Facts }[] = [];
  let after = page.after;
  for (let pages = 0; pages < pagesMax; pages++) {
    const limit = page.limit - locks.length;
    const found = await context.store.list(namespace, { prefix: page.prefix, limit, ...defined({ after }) });
    for (const { name, state: stored } of found.locks) {
      const state = await withPages(context, { namespace, name }, stored);
      const facts = await factsAbout(context, { namespace, name }, state);
      const held = standingHolders(state, facts).length > 0;
      if (page.state === undefined || (page.state === 'held') === held) locks.push({ name, state, facts });
    }
    after = found.after;
    if (after === undefined || locks.length >= page.limit) break;
  }
  return { locks, ...defined({ after }) };
}

/**
 * The lock as it is stored now, with its whole queue, and the facts to view it. One consistent read, and the pages if
 * there are any.
 */
export async function inspect(context: LockContext, key: LockKey): Promise<Omit<Answered, 'answer'>> {
  const state = await withPages(context, key, await context.store.read(key));
  return { state, facts: await factsAbout(context, key, state) };
}

/** The events of a lock, newest first. The lock is read first, so a hold that ends in between is still listed. */
export async function historyPage(
  { locks, history }: { locks: Pick<LockContext, 'store'>; history: HistoryStore },
  key: LockKey,
  page: Omit<HistoryPageAsked, 'standing'>,
): Promise<HistoryPage> {
  const { holders } = await locks.store.read(key);
  return history.page(key, { ...page, standing: holders.map(grantOf) });
}
