import { setTimeout } from 'node:timers/promises';
import { overBefore } from '../../client/held.ts';
import { LeaseLostError } from '../../client/index.ts';
import type { Command, Flags, Invocation } from '../command.ts';
import { exitCodes } from '../exit-codes.ts';
import { type HoldOptions, holdCommand, type Outcome } from '../hold.ts';
import { ifHeld, readIfHeld, unlessHeld } from '../if-held.ts';
import { showingPlace } from '../place.ts';
import type { Lease } from '../service.ts';
import { lockFlags, readLockOptions } from './lease-flags.ts';

/** Enough to flush a buffer and close a connection, and well under the ten seconds that container platforms give. */
const graceMsDefault = 5_000;

/** The longest wait for a release after the lock is lost. That release rarely matters any more. */
const lateReleaseMs = 1_000;

export const commandFlags: Flags = {
  'grace <duration>':
    'Time from SIGTERM to SIGKILL after the lock is lost; 5s by default, a quarter of the lease at most.',
  foreground: 'Keep the command in the process group of the terminal. A command that asks questions needs this.',
};

export const run: Command = {
  name: 'run',
  summary: 'Run a command while holding a lock.',
  operands: [{ name: 'lock' }],
  flags: { ...lockFlags, ...commandFlags, ...ifHeld },
  runsCommand: true,
  details: `The command gets HOLDFAST_LOCK, HOLDFAST_FENCE and HOLDFAST_LEASE_ID. Its input, output and exit code are passed on, and
signals reach it. The lock is renewed while the command runs, and released however the command ends.

If the lock is lost, the command and its whole process group get SIGTERM and, after the grace, SIGKILL. If the service
can't be reached, this happens before the lease ends. If this program is killed with -9, a guardian process does the same.`,
  examples: [
    'holdfast run nightly-report -- ./report.sh',
    'holdfast run nightly-report --if-held skip -- ./report.sh',
    'holdfast run deploy --wait 5m --lease 1m -- make deploy',
    'holdfast run gpu --limit 4 --permits 2 --wait 10m -- python train.py',
    'holdfast run wallet:42 -- sh -c \'psql -v fence="$HOLDFAST_FENCE" -f debit.sql\'',
  ],
  async run(invocation) {
    const { given, connection } = invocation;
    const { service } = connection();
    const name = given.operand('lock');
    const options = readLockOptions(given);
    readGraceMs(invocation);
    const heldCode = readIfHeld(given);
    return await unlessHeld(heldCode, async () => {
      const lease = await showingPlace(invocation, name, options.waitMs, (waiting) =>
        service.holdLease(name, { ...options, ...waiting }),
      );
      const outcome = await runUnderLease(invocation, lease);
      return outcome.kind === 'exited' ? outcome.exitCode : exitCodes.lost;
    });
  },
};

export function holdOptions(invocation: Invocation): HoldOptions {
  const { given, env, terminal, signals } = invocation;
  const { url, namespace } = invocation.connection();
  return {
    command: given.command,
    // If the command calls the service itself, it must reach the one that holds its lock.
    env: { ...env, HOLDFAST_URL: url, HOLDFAST_NAMESPACE: namespace },
    graceMs: readGraceMs(invocation),
    foreground: given.has('foreground'),
    signals,
    terminal,
  };
}

const readGraceMs = ({ given }: Invocation): number => given.durationMs('grace', 0, 3_600_000) ?? graceMsDefault;

/** Runs the command, then releases the lock however the command ended. */
export async function runUnderLease(invocation: Invocation, lease: Lease): Promise<Outcome> {
  const { lock } = lease;
  let outcome: Outcome;
  try {
    invocation.signals.interrupted.throwIfAborted();
    outcome = await holdCommand(lease, holdOptions(invocation));
  } catch (error) {
    await lock.release().catch(() => undefined);
    throw error;
  }
  return judge(outcome, lock, invocation);
}

/**
 * A command may succeed after its lease ended. Another holder may have run at the same time, so this is not a success.
 */
async function judge(outcome: Outcome, lock: Lease['lock'], { terminal }: Invocation): Promise<Outcome> {
  if (outcome.kind === 'lost') {
    // A lease that still lives ends by itself soon, and the service probably does not answer.
    await Promise.race([lock.release().catch(() => undefined), setTimeout(lateReleaseMs, undefined, { ref: false })]);
    return outcome;
  }
  const lostBefore = lock.signal.aborted ? 'unconfirmed' : undefined;
  try {
    const lost = overBefore(await lock.release()) ?? lostBefore;
    if (lost === undefined) return outcome;
    const message = `The lease on ${lock.name} had ended before the command did.`;
    terminal.error(message);
    return outcome.exitCode === 0 ? { kind: 'lost', error: new LeaseLostError(message, lost) } : outcome;
  } catch {
    terminal.note(`${lock.name} could not be released. Its lease will end by itself.`);
    return outcome;
  }
}
