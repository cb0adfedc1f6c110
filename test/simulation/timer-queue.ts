import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from './chance.ts';
import type { Conditions } from './conditions.ts';
import type { StoreWeather } from './store-path.ts';
import type { Verdicts } from './verdicts.ts';

/** As the stack has it: after three tries a message is given up. */
const receivesMax = 3;
/** What failed comes again only after a while; the sweep may well be there first. */
const invisibleMs = 20_000;

interface QueueParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly conditions: Conditions;
  readonly weather: StoreWeather;
  readonly verdicts: Verdicts;
  /** Hands a message to somebody who takes timers. False if it could not be handled, or nobody was there. */
  readonly deliver: (body: string) => Promise<boolean>;
}

/** Delayed messages that make the reaper look. Some are lost, in the best of weather, some come late, some twice. */
export class TimerQueue {
  readonly #parts: QueueParts;
  /** When the timers fire, or fired, of which the reaper did not hear: by lock. */
  readonly #lost = new Map<string, number[]>();

  constructor(parts: QueueParts) {
    this.#parts = parts;
  }

  send(body: string, delaySeconds: number): void {
    const { time, chance, conditions, weather, verdicts } = this.#parts;
    const delayMs = delaySeconds * 1_000;
    verdicts.count('timers armed');
    if (chance.happens(conditions.timersLost)) {
      verdicts.count('timers lost');
      this.#lose(body, time.now() + delayMs);
      return;
    }
    const copies = !weather.calm && chance.happens(conditions.duplicated) ? 2 : 1;
    if (copies > 1) verdicts.count('timers repeated');
    for (let copy = 0; copy < copies; copy++) {
      const lateMs =
        chance.longTailed(50, weather.calm ? 500 : 10_000) * (chance.happens(0.1) && !weather.calm ? 20 : 1);
      if (lateMs > 1_000) verdicts.count('timers late');
      time.after(delayMs + lateMs, () => void this.#fire(body, 1));
    }
  }

  /** Whether a timer never came, now or since that time: each arms the next one, so nothing follows it until the next sweep. */
  wasLost(lock: string, since: number): boolean {
    return (this.#lost.get(lock) ?? []).some((firesAt) => firesAt > since);
  }

  async #fire(body: string, receives: number): Promise<void> {
    const { time, verdicts, deliver } = this.#parts;
    if (await deliver(body)) return;
    verdicts.count('timers failed');
    this.#lose(body, time.now());
    if (receives < receivesMax) time.after(invisibleMs, () => void this.#fire(body, receives + 1));
  }

  #lose(body: string, firesAt: number): void {
    const { lock } = JSON.parse(body) as { lock: string };
    this.#lost.set(lock, [...(this.#lost.get(lock) ?? []), firesAt]);
  }
}
