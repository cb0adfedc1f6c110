import type { Waiting } from '../contract/views.ts';
import type { Core, Tier } from './core.ts';
import { invalidField } from './errors.ts';

/** The options of every call that takes a lock. */
export interface LeaseOptions {
  /** How long the lease lasts without a renewal, 1,000 to 86,400,000. The service's default is 30 s. Not under a session. */
  readonly leaseMs?: number | undefined;
  /** Shown to others. By default the client's owner, else the identity that the service sees. */
  readonly owner?: string | undefined;
  /** Ends a wait and gives up the place in the queue. It does not end a lease that was granted. */
  readonly signal?: AbortSignal | undefined;
  /** `efficiency` means that two holders at once would only waste work. */
  readonly tier?: Tier | undefined;
  /** With `fail-open`, the work runs without the lock if the service can't be reached. Only for the tier `efficiency`. */
  readonly onUnavailable?: 'fail-closed' | 'fail-open' | undefined;
  /** If false, nothing is renewed in the background, and the lease ends by itself. */
  readonly autoRenew?: boolean | undefined;
  /** After this time nothing is renewed, and no renewal lasts longer than it. So work that hangs does not hold for ever. */
  readonly holdMsMax?: number | undefined;
  /** The wait, the retries and the answer together end within this time. By default at most about 2 s after the wait. */
  readonly deadlineMs?: number | undefined;
}

/** How to try for a lock. */
export interface TryOptions extends LeaseOptions {
  /** How many permits the lock has. 1, the default, is a mutex. All callers must give the same limit. */
  readonly limit?: number | undefined;
  /** How many permits to take. */
  readonly permits?: number | undefined;
  /** A read-write lock: readers share. Not together with `limit` or `permits`. */
  readonly mode?: 'exclusive' | 'shared' | undefined;
  /** If this lease expires, nobody is granted for this time after it, because late writes of its holder may still arrive. */
  readonly lockDelayMs?: number | undefined;
  /** Strings that `inspect` shows to others, at most 1 KiB as JSON. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** How to wait for a lock. */
export interface AcquireOptions extends TryOptions {
  /** How long to wait, 0 to 900,000. 35 s by default: longer than the default lease of a crashed holder and its grace. */
  readonly waitMs?: number | undefined;
  /** Called about every 20 s with the place in the queue. */
  readonly onWaiting?: ((place: Waiting) => void) | undefined;
}

/** Every option of an acquire. The compiler refuses this list if one is missing. */
const knownOptions: Readonly<Record<keyof AcquireOptions, true>> = {
  leaseMs: true,
  owner: true,
  signal: true,
  tier: true,
  onUnavailable: true,
  autoRenew: true,
  holdMsMax: true,
  deadlineMs: true,
  limit: true,
  permits: true,
  mode: true,
  lockDelayMs: true,
  metadata: true,
  waitMs: true,
  onWaiting: true,
};

/** Plain JavaScript has no compiler that finds a misspelt option, and a lock without its options is another lock. */
export function checkOptions(options: object): void {
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(knownOptions, name)) continue;
    const meant = Object.keys(knownOptions).find((known) => known.toLowerCase() === name.toLowerCase());
    const message =
      meant === undefined
        ? `is not one of ${Object.keys(knownOptions).join(', ')}`
        : `is unknown: it is called ${meant}`;
    throw invalidField(name, message, `The option ${name}`);
  }
}

/** The options of an acquire among others, for a wrapper that has options of its own. */
export const acquireOptionsIn = (options: object): AcquireOptions =>
  Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(knownOptions, name)));

/** One of several locks: a name, or a name with its kind. */
export type LockEntry =
  | string
  | {
      readonly name: string;
      readonly limit?: number;
      readonly permits?: number;
      readonly mode?: 'exclusive' | 'shared';
    };

/** How to wait for several locks at once. */
export type AcquireAllOptions = LeaseOptions & Pick<AcquireOptions, 'waitMs' | 'onWaiting'>;

/** One default lease of 30 s, its grace, and time for the next grant. */
export const waitMsDefault = 35_000;

/** A caller that fails open wants to go on soon. One second is enough for a retry. */
const failOpenBudgetMs = 1_000;

/** Failing open breaks the promise of the tier `correctness`, so the caller must also choose the tier `efficiency`. */
export function checkFailOpen({ tier, onUnavailable }: Pick<LeaseOptions, 'tier' | 'onUnavailable'>): void {
  if (onUnavailable !== 'fail-open' || tier === 'efficiency') return;
  throw invalidField('onUnavailable', "'fail-open' is only allowed with tier: 'efficiency'", 'onUnavailable:');
}

export interface Resolved {
  readonly owner: string | undefined;
  readonly leaseMs: number | undefined;
  readonly tier: Tier | undefined;
  readonly failOpen: boolean;
  readonly unavailableBudgetMs: number | undefined;
}

/** The options of one call. The client's options are the defaults. */
export function resolve(
  { defaults }: Core,
  options: LeaseOptions,
  session?: { readonly owner: string | undefined },
): Resolved {
  const tier = options.tier ?? defaults.tier;
  const onUnavailable = options.onUnavailable ?? defaults.onUnavailable;
  checkFailOpen({ tier, onUnavailable });
  const failOpen = onUnavailable === 'fail-open';
  return {
    // Under a session, the session's owner counts, even if only the service knows it.
    owner: options.owner ?? (session ?? defaults).owner,
    leaseMs: session === undefined ? (options.leaseMs ?? defaults.leaseMs) : options.leaseMs,
    tier,
    failOpen,
    unavailableBudgetMs: failOpen ? failOpenBudgetMs : undefined,
  };
}
