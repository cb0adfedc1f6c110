import type { Waiter } from '../lock/state.ts';
import type { Update } from '../table/attributes.ts';
import { TableStore } from '../table/item-table.ts';
import type { EpochMs } from '../time/clock.ts';
import { appendTo, attendIn, close, fromPageItem, leave, type PageKey, pageItemKey, stepAwayIn } from './page-item.ts';
import type { Absence, Attendance, LeftHow, Page, QueueSizes } from './pages.ts';

/** The outcome of a write to a page. A refusal has the page that refused it. */
export type PageWritten =
  | { readonly applied: true; readonly page: Page }
  | { readonly applied: false; readonly page: Page; readonly perhapsMine: boolean };

/** What can be written to a page. Each is one write without a read. */
export type PageWrite =
  /** Appends, and makes the page if needed. Refused if it is closed or full, or if the lease waits in it or released its place in it. */
  | { readonly kind: 'join'; readonly waiter: Waiter; readonly fence: number; readonly sizes: QueueSizes }
  /** Sets until when a waiter is present, and how it waits. Refused if it isn't in the page, or the page is closed. */
  | { readonly kind: 'attend'; readonly attendance: Attendance }
  /** Makes a waiter absent. Refused in the same cases, and if its presence ends earlier or it is parked on another connection. */
  | { readonly kind: 'step-away'; readonly absence: Absence }
  /** Removes a waiter. The page remembers that it left. Refused if it isn't in the page, or the page is closed. */
  | { readonly kind: 'leave'; readonly leaseId: string; readonly how: LeftHow; readonly now: EpochMs }
  /** Closes the page, and makes it if needed. Idempotent. */
  | { readonly kind: 'close'; readonly now: EpochMs };

/** Keeps one item per page of a lock's queue. */
export class PageStore extends TableStore {
  /** Each read is strongly consistent. A page that nobody joined yet is empty. In the order of the keys. */
  async read(keys: readonly PageKey[]): Promise<Page[]> {
    const items = await this.table.getMany(keys.map(pageItemKey));
    return keys.map((key, index) => fromPageItem(key, items[index]));
  }

  async write(key: PageKey, write: PageWrite): Promise<PageWritten> {
    const { item, ...outcome } = await this.table.update(pageItemKey(key), updateOf(write));
    return { ...outcome, page: fromPageItem(key, item) };
  }
}

function updateOf(write: PageWrite): Update {
  switch (write.kind) {
    case 'join':
      return appendTo(write, write.sizes);
    case 'attend':
      return attendIn(write.attendance);
    case 'step-away':
      return stepAwayIn(write.absence);
    case 'leave':
      return leave(write.leaseId, write.how, write.now);
    case 'close':
      return close(write.now);
  }
}
