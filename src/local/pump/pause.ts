import type { DurationMs } from '../../time/clock.ts';

/** Resolves after the time, or as soon as the signal aborts. */
export const pause = (durationMs: DurationMs, signal: AbortSignal): Promise<void> =>
  new PauseWithWakeUp().pause(durationMs, signal);

/** A pause that can be ended early. A wake-up outside a pause is kept, so that the next pause ends at once. */
export class PauseWithWakeUp {
  #isWoken = false;
  #end: (() => void) | null = null;

  wakeUp(): void {
    this.#isWoken = true;
    this.#end?.();
  }

  /** Call this before looking for work. Any later wake-up then causes another look. */
  forgetWakeUps(): void {
    this.#isWoken = false;
  }

  async pause(durationMs: DurationMs, signal: AbortSignal): Promise<void> {
    if (this.#isWoken || signal.aborted || durationMs <= 0) return;
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        this.#end = null;
        resolve();
      };
      const timer = setTimeout(end, durationMs);
      signal.addEventListener('abort', end, { once: true });
      this.#end = end;
    });
  }
}
