import { WatcherStore } from '../../src/store/watchers.ts';
import { defaultTableName } from '../../src/table/shape.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { epochMs } from '../../src/time/clock.ts';
import type { Conditions } from './conditions.ts';
import type { Outside } from './outside.ts';
import { Process } from './process.ts';
import type { WorldTable } from './table.ts';
import type { Verdicts } from './verdicts.ts';

/** The time from the first message until the notifier has written that it was sent. From then on no event may be missed. */
const welcomedMs = 2_000;

interface WatcherParts {
  readonly time: VirtualTime;
  readonly conditions: Conditions;
  readonly verdicts: Verdicts;
  readonly outside: Outside;
  readonly table: WorldTable;
}

/** A client that watches every lock by WebSocket. Its connection does not outlast the idle month, so then it connects again. */
export class Watchers {
  readonly #parts: WatcherParts;
  #connectedAt: number | undefined;
  #shown = 0;
  #written = 0;

  constructor(parts: WatcherParts) {
    this.#parts = parts;
  }

  connect(): void {
    this.#connectedAt = undefined;
    const { time, outside, table } = this.#parts;
    const process = new Process(time, 'watcher1');
    const { notify } = outside.listen(process, 'websocket', (message) => this.#hear(message as { type: string }));
    const connectionId = notify.type === 'websocket' ? notify.connectionId : '';
    const connectedAt = epochMs(time.now());
    const watchers = new WatcherStore({ table: table.port, tableName: defaultTableName });
    // The arrival of a connection in the stream makes the publisher send the first message.
    void watchers.add({ namespace: 'sim', caller: 'anonymous', connectionId, connectedAt, subject: { prefix: '' } });
  }

  /** A write made this many events. */
  written(events: number): void {
    const isWatching = this.#connectedAt !== undefined && this.#parts.time.now() > this.#connectedAt + welcomedMs;
    if (isWatching) this.#written += events;
  }

  /** If something fails, a watcher may miss events. If nothing fails, it must get all of them. */
  check(): void {
    const { verdicts, conditions } = this.#parts;
    const isQuiet = conditions.outsideFails === 0;
    if (isQuiet && this.#shown < this.#written)
      verdicts.breach('watching', `${this.#written} events happened, and ${this.#shown} were shown`);
  }

  #hear(message: { readonly type: string }): void {
    const { verdicts, time } = this.#parts;
    if (message.type === 'connected') this.#connectedAt ??= time.now();
    else {
      this.#shown += 1;
      verdicts.count('events shown to a watcher');
    }
    if (this.#connectedAt === undefined) verdicts.breach('watching', 'events came before the first message', message);
    if (/\b[LST]-[a-z]+\d+-\d+\b/.test(JSON.stringify(message)))
      verdicts.breach('secrets', 'a watcher was shown a secret', message);
  }
}
