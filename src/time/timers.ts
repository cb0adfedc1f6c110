/** Runs something later. A simulation has its own, so that no test waits for real time. */
export interface Timers {
  /** Runs once after the given time. The returned function cancels it. */
  after(ms: number, run: () => void): () => void;
}

/** The longest delay of setTimeout. With a longer one, it would fire at once. */
const delayMsMax = 2 ** 31 - 1;

export const systemTimers: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, Math.min(Math.max(0, ms), delayMsMax));
    return () => clearTimeout(timer);
  },
};

export const pauseFor = (timers: Timers, ms: number): Promise<void> =>
  new Promise((resolve) => timers.after(ms, resolve));
