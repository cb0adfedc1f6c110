import type { AcquireOptions } from '../../client/index.ts';
import { lockLimits } from '../../contract/limits.ts';
import type { Given } from '../arguments.ts';
import type { Flags } from '../command.ts';
import { formatMs } from '../duration.ts';
import { UsageError } from '../failure.ts';

/** The service's own limit, so that a mistake is reported before anything is sent. */
const leaseMsRange = [lockLimits.leaseMsMin, lockLimits.leaseMsMax] as const;
const waitMsRange = [0, lockLimits.waitMsMax] as const;
const lockDelayMsRange = [0, lockLimits.lockDelayMsMax] as const;

const lease: Flags = {
  'lease <duration>': `How long the lock stays held without a renewal, ${leaseMsRange.map(formatMs).join(' to ')}; ${formatMs(lockLimits.leaseMsDefault)} by default.`,
};
export const owner: Flags = {
  'owner <text>': 'The name that others see; with --session its owner, else HOLDFAST_OWNER, else user@host:pid.',
};
export const wait: Flags = {
  'wait <duration>': `How long to wait in the queue, up to ${formatMs(lockLimits.waitMsMax)}; 0 by default: try once.`,
};
export const leaseId: Flags = {
  'lease-id <id>':
    'The id that acquire printed; HOLDFAST_LEASE_ID if not given. Other users can see flags, but not variables.',
};
export const session: Flags = {
  'session <id>': 'Hold the lock for as long as this session lives, instead of a lease.',
};

/** The flags of every command that holds a lock. */
export const leaseFlags: Flags = { ...lease, ...owner };

/** The flags of every command that takes one lock. */
export const lockFlags: Flags = {
  ...wait,
  ...lease,
  'limit <n>': `A semaphore: how many permits there are, 1 to ${lockLimits.limitMax}. All callers must give the same number.`,
  'permits <n>': 'How many of the permits are wanted; 1 by default.',
  shared: 'Take a read-write lock as one of many readers. Without it, as the only writer.',
  ...owner,
  'lock-delay <duration>': `How long nobody gets the lock after a lease expired, up to ${formatMs(lockLimits.lockDelayMsMax)}.`,
  'tier <tier>': {
    choices: ['correctness', 'efficiency'],
    meaning: 'efficiency: a second holder only wastes work.',
  },
  'meta <key=value>': 'Shown by inspect; separate several with commas.',
};

export function readLockOptions(given: Given): AcquireOptions {
  const limit = given.integer('limit', 1, lockLimits.limitMax);
  if (given.has('shared') && (limit !== undefined || given.has('permits'))) {
    throw new UsageError('--shared is for read-write locks, --limit and --permits are for semaphores: give one kind.');
  }
  return {
    waitMs: readWaitMs(given),
    leaseMs: readLeaseMs(given),
    owner: given.text('owner'),
    limit,
    permits: given.integer('permits', 1, limit ?? 1),
    mode: given.has('shared') ? 'shared' : undefined,
    lockDelayMs: given.durationMs('lock-delay', ...lockDelayMsRange),
    tier: given.text('tier') as AcquireOptions['tier'],
    metadata: readMetadata(given.text('meta')),
  };
}

export const readWaitMs = (given: Given): number => given.durationMs('wait', ...waitMsRange) ?? 0;

export const readLeaseMs = (given: Given): number | undefined => given.durationMs('lease', ...leaseMsRange);

export function readLeaseId(given: Given, env: NodeJS.ProcessEnv): string {
  const id = given.text('lease-id') ?? env.HOLDFAST_LEASE_ID;
  if (!id) throw new UsageError('The lease is missing: give --lease-id, or set HOLDFAST_LEASE_ID.');
  return id;
}

function readMetadata(text: string | undefined): Record<string, string> | undefined {
  if (text === undefined) return undefined;
  return Object.fromEntries(
    text.split(',').map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new UsageError(`--meta expects key=value, but got '${pair}'.`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}
