import { setTimeout } from 'node:timers/promises';
import { isHoldfastError } from '../../client/index.ts';
import { steadyBackoffMs } from '../../tools/backoff.ts';
import type { Command } from '../command.ts';
import { formatMs } from '../duration.ts';
import { showingPlace } from '../place.ts';
import type { Lease } from '../service.ts';
import { Signals } from '../signals.ts';
import { leaseFlags, readLeaseMs } from './lease-flags.ts';
import { commandFlags, runUnderLease } from './run.ts';

/** Fifteen minutes, the longest that one wait may last; then the candidate queues again. */
const candidacyMs = 900_000;
/** A candidate that failed does not stand again at once: another may do better. It doubles up to the maximum. */
const pauseMsMin = 500;
const pauseMsMax = 15_000;

export const elect: Command = {
  name: 'elect',
  summary: 'Stand for leadership, and run a command while leading.',
  operands: [{ name: 'name' }],
  flags: [...leaseFlags, ...commandFlags],
  runsCommand: true,
  connects: true,
  details: `The leader holds the lock of this name. Its fence, in HOLDFAST_FENCE, is the epoch: it rises with every term. When
leadership is lost the command is ended and the candidate stands again. When the command ends by itself, leadership is laid
down and its exit code passed on. A service that can't be reached is waited for.`,
  examples: ['holdfast elect scheduler -- ./scheduler', 'holdfast elect scheduler --lease 10s -- ./scheduler'],
  async run(invocation) {
    const { given, terminal } = invocation;
    const connection = invocation.connection();
    const name = given.operand('name');
    const leaseMs = readLeaseMs(given);
    const signals = new Signals();
    const stand = (): Promise<Lease> =>
      showingPlace(connection, terminal, name, ({ onWaiting }) =>
        connection.service.holdLease(name, { leaseMs, waitMs: candidacyMs, onWaiting, signal: signals.interrupted }),
      );
    try {
      for (let failures = 0; ; failures++) {
        try {
          const lease = await stand();
          failures = 0;
          terminal.note(`elected ${name}, epoch ${lease.lock.fence}`);
          const outcome = await runUnderLease(invocation, connection, lease, signals);
          if (outcome.kind === 'exited') return outcome.exitCode;
          terminal.note('standing again');
        } catch (error) {
          if (!isPassing(error)) throw error;
          if (error.code === 'wait-timeout') continue;
          const delayMs = steadyBackoffMs(failures, pauseMsMin, pauseMsMax, Math.random);
          terminal.note(`${error.message} Standing again in ${formatMs(delayMs)}.`);
          await setTimeout(delayMs, undefined, { signal: signals.interrupted }).catch(() => undefined);
          signals.interrupted.throwIfAborted();
        }
      }
    } finally {
      signals.letGo();
    }
  },
};

const passing: readonly string[] = ['unavailable', 'internal', 'throttled', 'queue-full', 'wait-timeout', 'lease-lost'];

/** Whether it may be better in a while. */
const isPassing = (error: unknown): error is Error & { code: string } =>
  isHoldfastError(error) && passing.includes(error.code);
