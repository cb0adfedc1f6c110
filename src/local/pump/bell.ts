import type { DurationMs } from '../../time/clock.ts';

/** A pause that can be cut short. A ring while nobody pauses is kept, so that the next pause ends at once. */
export class Bell {
  #rung = false;
  #wake: (() => void) | null = null;

  ring(): void {
    this.#rung = true;
    this.#wake?.();
  }

  /** Called before looking: whatever rings from here on asks for another look. */
  hush(): void {
    this.#rung = false;
  }

  /** Answers whether it was rung; an aborted signal ends the pause too. */
  async pause(durationMs: DurationMs, signal: AbortSignal): Promise<boolean> {
    if (this.#rung || signal.aborted || durationMs <= 0) return this.#rung;
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        this.#wake = null;
        resolve();
      };
      const timer = setTimeout(end, durationMs);
      signal.addEventListener('abort', end, { once: true });
      this.#wake = end;
    });
    return this.#rung;
  }
}
