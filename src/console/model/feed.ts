/** Events as they come in, which can be stopped to be read and narrowed to what is of interest. */
import { type EventType, type Happening, keyOf } from './events.ts';

/** Minutes of a busy service; older ones are in each lock's history. */
const feedMax = 2_000;

export interface Filter {
  /** Empty: all. */
  readonly types: ReadonlySet<EventType>;
  /** Part of a lock's or an owner's name. */
  readonly text: string;
}

export class Feed {
  /** Newest first. */
  #events: Happening[] = [];
  #stoppedAt: readonly Happening[] | null = null;
  #keys = new Set<string>();
  #missed = 0;

  /** What is shown: where the feed is stopped, what it was then. */
  get events(): readonly Happening[] {
    return this.#stoppedAt ?? this.#events;
  }

  get isStopped(): boolean {
    return this.#stoppedAt !== null;
  }

  /** How many came since it was stopped. */
  get missed(): number {
    return this.#missed;
  }

  stop(): void {
    this.#stoppedAt ??= this.#events;
  }

  resume(): void {
    this.#stoppedAt = null;
    this.#missed = 0;
  }

  clear(): void {
    this.#events = [];
    this.#keys.clear();
    this.resume();
  }

  /** Takes in events in any order, each once. */
  take(more: readonly Happening[]): void {
    const fresh = more.filter((event) => {
      const key = keyOf(event);
      if (this.#keys.has(key)) return false;
      this.#keys.add(key);
      return true;
    });
    if (fresh.length === 0) return;
    const all = [...fresh.toReversed(), ...this.#events];
    // Stable, so that events of one instant stay as they came.
    if (all.some((event, index) => event.at < (all[index + 1]?.at ?? 0))) all.sort((one, other) => other.at - one.at);
    this.#events = all.slice(0, feedMax);
    for (const dropped of all.slice(feedMax)) this.#keys.delete(keyOf(dropped));
    if (this.#stoppedAt !== null) this.#missed += fresh.length;
  }
}

export function filtered(events: readonly Happening[], { types, text }: Filter): readonly Happening[] {
  if (types.size === 0 && text === '') return events;
  const wanted = text.toLowerCase();
  return events.filter(
    ({ type, lock, owner }) =>
      (types.size === 0 || types.has(type)) &&
      (wanted === '' || lock.toLowerCase().includes(wanted) || owner.toLowerCase().includes(wanted)),
  );
}
