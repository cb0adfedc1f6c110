import { constants } from 'node:os';

/** Signals that ask a program to end. */
const endSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
/**
 * Signals that are meant for the command, not for this program. Ctrl-Z is one of them: a stopped holder would not
 * renew, and would lose the lock.
 */
const commandSignals = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT', 'SIGTSTP'] as const;
const signalsCaught = [...endSignals, ...commandSignals];

/** A signal came before the command was started. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`Ended by ${signal}.`);
    this.signal = signal;
  }
}

/** The exit code that a shell reports. */
export const exitCodeOfSignal = (signal: NodeJS.Signals): number => 128 + constants.signals[signal];

/** Catches signals to this process, and gives each one to the current receiver. */
export class Signals {
  readonly #interruption = new AbortController();
  #isListening = false;
  #receiver: ((signal: NodeJS.Signals) => void) | undefined;

  /**
   * Fires when a signal asks to end while there is no receiver. Its reason is an {@link Interrupted}. Signals are caught
   * from the first call on, because a command that never asks for this should end as usual.
   */
  get interrupted(): AbortSignal {
    if (!this.#isListening) for (const signal of signalsCaught) process.on(signal, this.#receive);
    this.#isListening = true;
    return this.#interruption.signal;
  }

  /** From now on the receiver gets all signals. Call the returned function to end that. */
  passTo(receiver: (signal: NodeJS.Signals) => void): () => void {
    this.#receiver = receiver;
    return () => {
      this.#receiver = undefined;
    };
  }

  stopListening(): void {
    for (const signal of signalsCaught) process.off(signal, this.#receive);
  }

  readonly #receive = (signal: NodeJS.Signals): void => {
    if (this.#receiver !== undefined) this.#receiver(signal);
    else if (endSignals.some((ending) => ending === signal)) this.#interruption.abort(new Interrupted(signal));
  };
}
