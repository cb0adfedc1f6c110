import { LeaseLostError } from '../client/index.ts';
import { Child } from './child.ts';
import { formatMs } from './duration.ts';
import { Guard } from './guard.ts';
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

/** How it ended: the command by itself, or because its lock was lost. */
export type Outcome =
  | { readonly kind: 'exited'; readonly exitCode: number }
  | { readonly kind: 'lost'; readonly error: LeaseLostError };

/**
 * A quarter: renewals come after a third of the lease, and one that is late by as much again must not yet cost the command its life.
 */
const gracePerLease = 1 / 4;
const lookMsMax = 1_000;
const lookMsMin = 50;

/** The terminal sends these to every process in its foreground, so that passing them on would send them twice. */
const sentByTerminal: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT', 'SIGWINCH', 'SIGCONT'];

/**
 * Runs a command for as long as the lock is held, and ends it when it is lost.
 *
 *     renewals fail                      told to end     killed    lease ends on the service
 *      │───────────────────────────────────│──── grace ────│─margin───│
 *
 * Where the service says that the lock is already lost, there is no time left to count: the command is told at once, and killed after
 * the same grace.
 */
export async function holdCommand({ lock, leaseId, leaseMs }: Lease, options: HoldOptions): Promise<Outcome> {
  const { terminal, signals, foreground } = options;
  const graceMs = Math.min(options.graceMs, leaseMs * gracePerLease);
  const guard = new Guard(graceMs, () =>
    terminal.note('the guardian is gone: should this process be killed with -9, the command runs on.'),
  );
  try {
    const env = commandEnv(options.env, lock, leaseId);
    const child = await Child.start(options.command, { env, foreground });
    guard.target(child.target);
    const ending = new Ending(child, guard, graceMs, terminal);
    const look = () => {
      const leftMs = lock.remainingMs();
      if (ending.error !== undefined) return;
      guard.held(leftMs);
      if (leftMs <= graceMs) {
        const message = `The lease on ${lock.name} could not be renewed and ends in ${formatMs(leftMs)}.`;
        ending.begin(new LeaseLostError(message, 'unconfirmed'));
      }
    };
    look();
    const looking = setInterval(look, Math.max(lookMsMin, Math.min(lookMsMax, graceMs / 2)));
    const stopListening = lock.onLost((error) => ending.onLost(error));
    const stopPassing = signals.passTo((signal) => pass(child, signal, foreground, terminal));
    try {
      const { exitCode, signal } = await child.exited;
      // What a command that died by a signal leaves behind is half of its work, and would go on without the lock.
      if (!foreground && (signal !== null || ending.error !== undefined)) child.send('SIGKILL');
      // The guardian may have been first, where this process was stopped.
      const error = ending.error ?? (signal === null ? undefined : (lock.signal.reason as LeaseLostError | undefined));
      return error === undefined ? { kind: 'exited', exitCode } : { kind: 'lost', error };
    } finally {
      clearInterval(looking);
      ending.letGo();
      stopListening();
      stopPassing();
    }
  } finally {
    guard.done();
  }
}

/** What the command gets to know. */
const commandEnv = (env: NodeJS.ProcessEnv, lock: Lease['lock'], leaseId: string): NodeJS.ProcessEnv => ({
  ...env,
  HOLDFAST_LOCK: lock.name,
  HOLDFAST_FENCE: String(lock.fence),
  HOLDFAST_LEASE_ID: leaseId,
});

function pass(child: Child, signal: NodeJS.Signals, foreground: boolean, terminal: Terminal): void {
  if (signal === 'SIGTSTP') {
    terminal.note('not stopped: a stopped command would keep the lock, and a stopped holder would lose it.');
    if (foreground) child.send('SIGCONT');
  } else if (!foreground || !sentByTerminal.includes(signal)) child.send(signal);
}

/** The end of a command whose lock is lost, or about to be. */
class Ending {
  /** Why; undefined while all is well. */
  error: LeaseLostError | undefined;
  readonly #child: Child;
  readonly #guard: Guard;
  readonly #graceMs: number;
  readonly #terminal: Terminal;
  #timer: NodeJS.Timeout | undefined;

  constructor(child: Child, guard: Guard, graceMs: number, terminal: Terminal) {
    this.#child = child;
    this.#guard = guard;
    this.#graceMs = graceMs;
    this.#terminal = terminal;
  }

  begin(error: LeaseLostError): void {
    this.error = error;
    this.#terminal.error(`${error.message} Ending the command.`);
    this.#guard.held(this.#graceMs);
    this.#child.send('SIGTERM');
    // A stopped command could not act on it.
    this.#child.send('SIGCONT');
    this.#timer = setTimeout(() => this.#child.send('SIGKILL'), this.#graceMs);
  }

  onLost(error: LeaseLostError): void {
    // Told already, it has had its grace: now the time is over.
    if (this.error !== undefined) this.#child.send('SIGKILL');
    else this.begin(error);
  }

  letGo(): void {
    clearTimeout(this.#timer);
  }
}
