import type { AcquireOptions } from '../../client/index.ts';
import { lockLimits } from '../../contract/limits.ts';
import type { Given } from '../arguments.ts';
import type { Flag } from '../command.ts';
import { formatMs } from '../duration.ts';
import { UsageError } from '../usage-error.ts';

/** What the service takes, so that a mistake is told before anything is sent. */
export const leaseMsRange = [lockLimits.leaseMsMin, lockLimits.leaseMsMax] as const;
const waitMsRange = [0, lockLimits.waitMsMax] as const;
const lockDelayMsRange = [0, lockLimits.lockDelayMsMax] as const;

const lease: Flag = {
  name: 'lease',
  value: 'duration',
  meaning: `How long the lock stays held without a renewal, ${leaseMsRange.map(formatMs).join(' to ')}; ${formatMs(lockLimits.leaseMsDefault)} by default.`,
};
export const owner: Flag = {
  name: 'owner',
  value: 'text',
  meaning: 'Who others see as the holder; HOLDFAST_OWNER, else user@host:pid.',
};
export const wait: Flag = {
  name: 'wait',
  value: 'duration',
  meaning: `How long to wait in line, up to ${formatMs(lockLimits.waitMsMax)}; 0 by default: try once.`,
};
export const leaseId: Flag = {
  name: 'lease-id',
  value: 'id',
  meaning: 'The id that acquire printed; else it is taken from HOLDFAST_LEASE_ID, which other users can not see.',
};
export const session: Flag = {
  name: 'session',
  value: 'id',
  meaning: 'Hold it for as long as this session lives, in place of a lease.',
};

/** The flags of everything that holds a lock for a while. */
export const leaseFlags: readonly Flag[] = [lease, owner];

/** The flags of everything that takes one lock. */
export const lockFlags: readonly Flag[] = [
  wait,
  lease,
  {
    name: 'limit',
    value: 'n',
    meaning: `A semaphore: how many permits there are, 1 to ${lockLimits.limitMax}. All must say the same.`,
  },
  { name: 'permits', value: 'n', meaning: 'How many of the permits are wanted; 1 by default.' },
  { name: 'shared', meaning: 'A read-write lock: as one of many readers. Without it, as the one writer.' },
  owner,
  {
    name: 'lock-delay',
    value: 'duration',
    meaning: `Keep the lock free for so long after a lease that expired, up to ${formatMs(lockLimits.lockDelayMsMax)}.`,
  },
  {
    name: 'tier',
    value: 'tier',
    choices: ['correctness', 'efficiency'],
    meaning: 'efficiency: a second holder only wastes work.',
  },
  { name: 'meta', value: 'key=value', meaning: 'Shown to who inspects the lock; several are separated by commas.' },
];

export function readLockOptions(given: Given): AcquireOptions {
  const limit = given.integer('limit', 1, lockLimits.limitMax);
  if (given.has('shared') && (limit !== undefined || given.has('permits'))) {
    throw new UsageError('--shared is for read-write locks, --limit and --permits are for semaphores: give one kind.');
  }
  return {
    waitMs: readWaitMs(given),
    leaseMs: readLeaseMs(given),
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
