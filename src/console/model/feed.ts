/** Events as they come in, which can be stopped to be read and narrowed to what is of interest. */
import { type EventType, type Happening, merged } from './events.ts';

/** Minutes of a busy service; older ones are in each lock's history. */
const feedMax = 2_000;

export interface Filter {
  /** Empty: all. */
  readonly types: ReadonlySet<EventType>;
  /** Part of a lock's or an owner's name. */
  readonly text: string;
}

export class Feed {
  /** Oldest first, as all events are kept. */
  #events: readonly Happening[] = [];
  #stoppedAt: readonly Happening[] | null = null;

  /** What is shown, newest first: where the feed is stopped, what it was then. */
  get events(): readonly Happening[] {
    return (this.#stoppedAt ?? this.#events).toReversed();
  }

  get isStopped(): boolean {
    return this.#stoppedAt !== null;
  }

  /** How many came since it was stopped. */
  get missed(): number {
    const shown = new Set(this.#stoppedAt ?? this.#events);
    return this.#events.filter((event) => !shown.has(event)).length;
  }

  stop(): void {
    this.#stoppedAt = this.#events;
  }

  resume(): void {
    this.#stoppedAt = null;
  }

  clear(): void {
    this.#events = [];
    this.resume();
  }

  /** Takes in events in any order, each once. */
  take(more: readonly Happening[]): void {
    this.#events = merged(this.#events, more, feedMax);
  }
}

export function filtered(events: readonly Happening[], { types, text }: Filter): readonly Happening[] {
  const wanted = text.toLowerCase();
  return events.filter(
    ({ type, lock, owner }) =>
      (types.size === 0 || types.has(type)) && `${lock}\n${owner}`.toLowerCase().includes(wanted),
  );
}
