import { grantEventOf } from '../store/history-rules.ts';
import type { HistoryPage, HistoryPageAsked, HistoryStore } from '../store/history-store.ts';
import type { LockKey } from '../store/lock-store.ts';
import type { LockContext } from './context.ts';

interface Sources {
  readonly locks: Pick<LockContext, 'store'>;
  readonly history: HistoryStore;
}

/** The events of a lock, newest first. The lock is read first, so a hold that ends in between is still listed. */
export async function historyPage(
  { locks, history }: Sources,
  key: LockKey,
  page: Omit<HistoryPageAsked, 'standing'>,
): Promise<HistoryPage> {
  const { holders } = await locks.store.read(key);
  return history.page(key, { ...page, standing: holders.map(grantEventOf) });
}
