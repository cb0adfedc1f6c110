import type { Claim } from '../../lock/state.ts';
import type { EpochMs } from '../../time/clock.ts';

/** A claim as it lies in a lock's item, of a holder or of a waiter. Names are short because every write is billed by the item's size. */
export interface ClaimItem {
  i: string;
  o: string;
  p: number;
  l?: number;
  s?: string;
  d?: number;
  r?: Claim['mode'];
  m?: Claim['metadata'];
  n?: Claim['notify'];
  /** Queued at. */
  t?: number;
}

export function toClaimItem(claim: Claim & { readonly queuedAt?: EpochMs }): ClaimItem {
  return {
    i: claim.leaseId,
    o: claim.owner,
    p: claim.permits,
    ...(claim.leaseMs === null ? {} : { l: claim.leaseMs }),
    ...extrasOf(claim),
    ...(claim.queuedAt === undefined ? {} : { t: claim.queuedAt }),
  };
}

/** What few claims have. */
export type Extras = Pick<ClaimItem, 's' | 'd' | 'r' | 'm' | 'n'>;

export const extrasOf = (claim: Claim): Extras => ({
  ...(claim.sessionId === undefined ? {} : { s: claim.sessionId }),
  ...(claim.lockDelayMs ? { d: claim.lockDelayMs } : {}),
  ...(claim.mode === undefined ? {} : { r: claim.mode }),
  ...(claim.metadata === undefined ? {} : { m: claim.metadata }),
  ...(claim.notify === undefined ? {} : { n: claim.notify }),
});

export function fromClaimItem(item: ClaimItem): Claim {
  return {
    leaseId: item.i,
    owner: item.o,
    permits: item.p,
    leaseMs: item.l ?? null,
    ...fromExtras(item),
  };
}

export const fromExtras = (item: Extras): Partial<Claim> => ({
  ...(item.s === undefined ? {} : { sessionId: item.s }),
  ...(item.d === undefined ? {} : { lockDelayMs: item.d }),
  ...(item.r === undefined ? {} : { mode: item.r }),
  ...(item.m === undefined ? {} : { metadata: item.m }),
  ...(item.n === undefined ? {} : { notify: item.n }),
});
