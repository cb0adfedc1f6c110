import { marshall } from '@aws-sdk/util-dynamodb';
import { watcherSortPrefix } from '../../src/table/shape.ts';
import type { Watcher } from '../../src/store/watchers.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { epochMs } from '../../src/time/clock.ts';
import type { Conditions } from './conditions.ts';
import type { Outside } from './outside.ts';
import { Process } from './process.ts';
import type { Table } from './store.ts';
import type { Stream } from './stream.ts';
import type { Verdicts } from './verdicts.ts';

/** The time from the first message until the notifier has written that it was sent. From then on no event may be missed. */
const welcomedMs = 2_000;

interface WatcherParts {
  readonly time: VirtualTime;
  readonly conditions: Conditions;
  readonly verdicts: Verdicts;
  readonly outside: Outside;
  readonly stream: Stream;
  readonly table: Table;
}

/** A client that watches every lock by WebSocket, from the beginning to the end. */
export class Watchers {
  readonly #parts: WatcherParts;
  #connectedAt: number | undefined;
  #shown = 0;
  #written = 0;

  constructor(parts: WatcherParts) {
    this.#parts = parts;
  }

  connect(): void {
    const { time, outside, table } = this.#parts;
    const process = new Process(time, 'watcher1');
    const { notify } = outside.listen(process, 'websocket', (message) => this.#hear(message as { type: string }));
    const connectionId = notify.type === 'websocket' ? notify.connectionId : '';
    const connectedAt = epochMs(time.now());
    void table.side.watchers.add({
      namespace: 'sim',
      caller: 'anonymous',
      connectionId,
      connectedAt,
      subject: { prefix: '' },
    });
  }

  /** The arrival of a connection in the stream makes the publisher send the first message. */
  added({ namespace, connectionId, connectedAt, caller, subject }: Watcher): void {
    const watched = subject === 'nothing' ? {} : subject;
    const pk = `${namespace}/${subject === 'nothing' ? 'sockets' : 'watchers'}`;
    const keys = { pk, sk: `${watcherSortPrefix}${connectionId}` };
    const image = marshall({ ...keys, caller, at: connectedAt, ...watched });
    this.#parts.stream.append(keys.pk, { Keys: marshall(keys) as never, NewImage: image as never });
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
