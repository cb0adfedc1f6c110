import { LeaseLostError } from '../client/index.ts';
import { Child } from './child.ts';
import { formatMs } from './duration.ts';
import { GuardianPipe } from './guardian-pipe.ts';
import type { Lease } from './service.ts';
import type { Signals } from './signals.ts';
import type { Terminal } from './terminal.ts';

export interface HoldOptions {
  readonly command: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly graceMs: number;
  readonly foreground: boolean;
  readonly signals: Signals;
  readonly terminal: Terminal;
}

/** The command either ended by itself, or was ended because its lock was lost. */
export type Outcome =
  | { readonly kind: 'exited'; readonly exitCode: number }
  | { readonly kind: 'lost'; readonly error: LeaseLostError };

/**
 * A quarter: a renewal is sent after a third of the lease. If it takes another third, the command must not be ended
 * yet.
 */
const gracePerLease = 1 / 4;
const lookMsMax = 1_000;
const lookMsMin = 50;

/** The terminal sends these to every foreground process. If we passed them on, the command would get them twice. */
const sentByTerminal: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT', 'SIGWINCH', 'SIGCONT'];

/**
 * Runs a command while the lock is held, and ends it if the lock is lost.
 *
 *     renewals fail                       SIGTERM         SIGKILL    lease ends on the service
 *      │───────────────────────────────────│──── grace ────│─margin───│
 *
 * If the service says that the lock is already lost, no time is left: the command gets SIGTERM at once, and SIGKILL
 * after the same grace.
 */
export async function holdCommand({ lock, leaseId, leaseMs }: Lease, options: HoldOptions): Promise<Outcome> {
  const { terminal, signals, foreground } = options;
  const graceMs = Math.min(options.graceMs, leaseMs * gracePerLease);
  const guardian = new GuardianPipe(graceMs, () =>
    terminal.note(
      'the guardian process has ended: if this process is killed with -9, the command will run on without the lock.',
    ),
  );
  try {
    const env = commandEnv(options.env, lock, leaseId);
    const child = await Child.start(options.command, { env, foreground });
    guardian.target(child.target);
    const ending = endingOf(child, guardian, graceMs, terminal);
    const look = () => {
      const leftMs = lock.remainingMs();
      if (ending.error !== undefined) return;
      guardian.held(leftMs);
      if (leftMs <= graceMs) {
        const message = `The lease on ${lock.name} could not be renewed and ends in ${formatMs(leftMs)}.`;
        ending.begin(new LeaseLostError(message, 'unconfirmed'));
      }
    };
    look();
    child.go();
    const looking = setInterval(look, Math.max(lookMsMin, Math.min(lookMsMax, graceMs / 2)));
    const stopListening = lock.onLost((error) => ending.onLost(error));
    const stopPassing = signals.passTo((signal) => pass(child, signal, foreground, terminal));
    try {
      const { exitCode, signal } = await child.exited;
      // A signal ended the command in the middle of its work. Processes that it started would go on without the lock.
      if (!foreground && (signal !== null || ending.error !== undefined)) child.send('SIGKILL');
      // If this process was stopped for a while, the guardian may have ended the command first.
      const error = ending.error ?? (signal === null ? undefined : (lock.signal.reason as LeaseLostError | undefined));
      return error === undefined ? { kind: 'exited', exitCode } : { kind: 'lost', error };
    } finally {
      clearInterval(looking);
      ending.cancelKill();
      stopListening();
      stopPassing();
    }
  } finally {
    guardian.done();
  }
}

const commandEnv = (env: NodeJS.ProcessEnv, lock: Lease['lock'], leaseId: string): NodeJS.ProcessEnv => ({
  ...env,
  HOLDFAST_LOCK: lock.name,
  HOLDFAST_FENCE: String(lock.fence),
  HOLDFAST_LEASE_ID: leaseId,
});

function pass(child: Child, signal: NodeJS.Signals, foreground: boolean, terminal: Terminal): void {
  if (signal === 'SIGTSTP') {
    terminal.note(
      'not stopped: a stopped command would keep the lock for nothing, and without this process the lock would be lost.',
    );
    if (foreground) child.send('SIGCONT');
  } else if (!foreground || !sentByTerminal.includes(signal)) child.send(signal);
}

/** Ends a command whose lock is lost or about to be lost. `error` is the reason. It is undefined while the lock is held. */
function endingOf(child: Child, guardian: GuardianPipe, graceMs: number, terminal: Terminal) {
  let timer: NodeJS.Timeout | undefined;
  const ending = {
    error: undefined as LeaseLostError | undefined,
    begin(error: LeaseLostError): void {
      ending.error = error;
      terminal.error(`${error.message} Ending the command.`);
      guardian.held(graceMs);
      child.send('SIGTERM');
      // A stopped command can't react to SIGTERM.
      child.send('SIGCONT');
      timer = setTimeout(() => child.send('SIGKILL'), graceMs);
    },
    onLost(error: LeaseLostError): void {
      // The command already got SIGTERM and its grace is over.
      if (ending.error !== undefined) child.send('SIGKILL');
      else ending.begin(error);
    },
    cancelKill: () => clearTimeout(timer),
  };
  return ending;
}
