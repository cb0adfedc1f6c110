/** Events as they arrive. A reader can stop the feed and filter it. */
import { type EventType, type Happening, merged } from './events.ts';

/** Some minutes of a busy service. Older events are in each lock's history. */
const feedMax = 2_000;

export interface Filter {
  /** If empty, all types are shown. */
  readonly types: ReadonlySet<EventType>;
  /** Part of a lock's or an owner's name. */
  readonly text: string;
}

export class Feed {
  /** Oldest first, as all events are kept. */
  #events: readonly Happening[] = [];
  #stoppedAt: readonly Happening[] | null = null;

  /** The events that are shown, newest first. If the feed is stopped, the events at that time. */
  get events(): readonly Happening[] {
    return (this.#stoppedAt ?? this.#events).toReversed();
  }

  get isStopped(): boolean {
    return this.#stoppedAt !== null;
  }

  /** How many events came since it was stopped. */
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

  /** Adds events, in any order. Each is kept once. */
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
