import { constants } from 'node:os';

/** What asks a program to end. */
const endings = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
/**
 * What tells a program something, for the command to know and not for this program. Ctrl-Z is among them, since a stopped holder would
 * renew nothing and lose the lock.
 */
const tidings = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT', 'SIGTSTP'] as const;

/** A signal came before there was a command to pass it on to. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`Ended by ${signal}.`);
    this.signal = signal;
  }
}

/** As shells tell it. */
export const exitCodeOfSignal = (signal: NodeJS.Signals): number => 128 + constants.signals[signal];

/** Catches signals to this process, and gives each one to the listener that is in charge now. */
export class Signals {
  readonly #interruption = new AbortController();
  readonly #listeners = new Map<NodeJS.Signals, () => void>();
  #receiver: ((signal: NodeJS.Signals) => void) | undefined;

  constructor() {
    for (const signal of [...endings, ...tidings]) {
      const listener = () => this.#receive(signal);
      this.#listeners.set(signal, listener);
      process.on(signal, listener);
    }
  }

  /** Fires when a signal asks to end while there is no receiver. Its reason is an {@link Interrupted}. */
  get interrupted(): AbortSignal {
    return this.#interruption.signal;
  }

  /** From now on signals are passed on. What this returns ends that. */
  passTo(receiver: (signal: NodeJS.Signals) => void): () => void {
    this.#receiver = receiver;
    return () => {
      this.#receiver = undefined;
    };
  }

  letGo(): void {
    for (const [signal, listener] of this.#listeners) process.off(signal, listener);
    this.#listeners.clear();
  }

  #receive(signal: NodeJS.Signals): void {
    if (this.#receiver !== undefined) this.#receiver(signal);
    else if (endings.some((ending) => ending === signal)) this.#interruption.abort(new Interrupted(signal));
  }
}
