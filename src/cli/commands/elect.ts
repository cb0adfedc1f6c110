import { setTimeout } from 'node:timers/promises';
import { isHoldfastError } from '../../client/index.ts';
import { steadyBackoffMs } from '../../tools/backoff.ts';
import type { Command } from '../command.ts';
import { formatMs } from '../duration.ts';
import { showingPlace } from '../place.ts';
import type { Lease } from '../service.ts';
import { leaseFlags, readLeaseMs } from './lease-flags.ts';
import { commandFlags, runUnderLease } from './run.ts';

/** Fifteen minutes is the longest that one wait may last. After that the candidate queues again. */
const candidacyMs = 900_000;
/** A candidate that failed pauses first, so that another one can win. The pause doubles up to the maximum. */
const pauseMsMin = 500;
const pauseMsMax = 15_000;

export const elect: Command = {
  name: 'elect',
  summary: 'Wait to be the leader, and run a command while leading.',
  operands: [{ name: 'name' }],
  flags: { ...leaseFlags, ...commandFlags },
  runsCommand: true,
  details: `The leader holds the lock of this name. Its fence, in HOLDFAST_FENCE, is the epoch: it rises with every term. If
the lock is lost, the command is ended and this program waits for the lock again. If the command ends by itself, the lock
is released and this program exits with the command's code. If the service can't be reached, this program keeps trying.`,
  examples: ['holdfast elect scheduler -- ./scheduler', 'holdfast elect scheduler --lease 10s -- ./scheduler'],
  async run(invocation) {
    const { given, terminal, connection } = invocation;
    const { interrupted } = invocation.signals;
    const { service } = connection();
    const name = given.operand('name');
    const leaseMs = readLeaseMs(given);
    const waitForLease = (): Promise<Lease> =>
      showingPlace(invocation, name, undefined, (waiting) =>
        service.holdLease(name, { leaseMs, waitMs: candidacyMs, ...waiting }),
      );
    for (let failures = 0; ; failures++) {
      try {
        const lease = await waitForLease();
        failures = 0;
        terminal.note(`elected ${name}, epoch ${lease.lock.fence}`);
        const outcome = await runUnderLease(invocation, lease);
        if (outcome.kind === 'exited') return outcome.exitCode;
        terminal.note('waiting to lead again');
      } catch (error) {
        if (!isTemporary(error)) throw error;
        if (error.code === 'wait-timeout') continue;
        const delayMs = steadyBackoffMs(failures, pauseMsMin, pauseMsMax, Math.random);
        terminal.note(`${error.message} Trying again in ${formatMs(delayMs)}.`);
        await setTimeout(delayMs, undefined, { signal: interrupted }).catch(() => undefined);
        interrupted.throwIfAborted();
      }
    }
  },
};

const temporaryCodes: readonly string[] = [
  'unavailable',
  'internal',
  'throttled',
  'queue-full',
  'wait-timeout',
  'lease-lost',
];

/** True if the failure may go away by itself. */
const isTemporary = (error: unknown): error is Error & { code: string } =>
  isHoldfastError(error) && temporaryCodes.includes(error.code);
