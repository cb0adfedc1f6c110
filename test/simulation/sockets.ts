/**
 * The WebSocket API between clients and hosts. Each connection has two ends, and no end knows what the other one sees:
 *
 *     client ── opens, speaks, closes ──► gateway ── $connect, $default, $disconnect ──► hosts
 *        ◄──── messages, in order ──────────┴──◄── posts of hosts and notifiers
 *
 * A connection may break at any moment. Both ends notice it, or one of them long before the other, or both only after a while.
 * Messages in between are lost. A host may learn of the end late, or never.
 */
import type { WebSocketClass, WebSocketLike } from '../../src/client/http-transport.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Opening } from '../../src/websocket/handler.ts';
import type { Chance } from './chance.ts';
import type { Conditions } from './conditions.ts';
import type { Process } from './process.ts';
import type { StoreWeather } from './table-path.ts';
import type { Verdicts } from './verdicts.ts';

/** A process that answers for connections. */
export interface SocketHost {
  readonly process: Process;
  /** The status of the answer to the opening. */
  connect(opening: Opening): Promise<number>;
  message(connectionId: string): Promise<string>;
  /** False if it failed. */
  disconnect(connectionId: string): Promise<boolean>;
}

export interface SocketWatcher {
  opened(connectionId: string, client: string): void;
  /** A message was posted to it. It may not arrive. */
  posted(connectionId: string, text: string): void;
  /** The gateway knows that it is over. */
  ended(connectionId: string): void;
  /** A host learned of the end, and has finished its work for it. */
  disconnected(connectionId: string): void;
}

interface SocketsParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly conditions: Conditions;
  readonly weather: StoreWeather;
  readonly verdicts: Verdicts;
  readonly hosts: () => readonly SocketHost[];
  readonly watcher: SocketWatcher;
}

type Seen = 'opening' | 'open' | 'ended';
type Tell = (type: 'open' | 'message' | 'close' | 'error', event: { data: unknown }) => void;

interface Connection {
  readonly id: string;
  readonly owner: Process;
  readonly tell: Tell;
  atClient: Seen;
  atGateway: Seen;
  /** Nothing passes any more. Perhaps no end knows it. */
  isCut: boolean;
  /** When the latest message arrives, in each direction: messages do not overtake each other. */
  downAt: number;
  upAt: number;
}

const nothing = { data: undefined };

export class Sockets {
  readonly #parts: SocketsParts;
  readonly #connections = new Map<string, Connection>();
  #opened = 0;

  constructor(parts: SocketsParts) {
    this.#parts = parts;
  }

  /** The WebSocket of one process. With `canRest`, it can be set not to keep its process alive. */
  classFor(owner: Process, canRest: boolean): WebSocketClass {
    const dial = (url: string, tell: Tell) => this.#dial(owner, new URL(url), tell);
    const say = (connection: Connection) => this.#say(connection);
    const close = (connection: Connection) => this.#closeByClient(connection);
    return class implements WebSocketLike {
      readonly _socket = canRest ? { ref: () => {}, unref: () => {} } : undefined;
      readonly #listeners: { readonly type: string; readonly listener: (event: never) => void }[] = [];
      readonly #connection: Connection;

      constructor(url: string) {
        this.#connection = dial(url, (type, event) => {
          for (const { type: wanted, listener } of this.#listeners) if (wanted === type) listener(event as never);
        });
      }

      addEventListener(type: string, listener: (event: never) => void): void {
        this.#listeners.push({ type, listener });
      }

      send(): void {
        say(this.#connection);
      }

      close(): void {
        close(this.#connection);
      }
    };
  }

  /** From the service. False if the gateway knows no such connection. */
  post(id: string, text: string): boolean {
    const connection = this.#connections.get(id);
    if (connection?.atGateway !== 'open') return false;
    this.#parts.watcher.posted(id, text);
    this.#pass(connection, text);
    return true;
  }

  /** A client is cut off from everything: its connections are broken, and nobody notices. */
  cutOff(client: string): void {
    for (const connection of this.#connections.values())
      if (connection.owner.name === client) this.#breakUnnoticed(connection);
  }

  /** Both ends notice every broken connection. */
  heal(): void {
    const { time } = this.#parts;
    for (const connection of this.#connections.values()) {
      const { atClient, atGateway, isCut } = connection;
      if (!isCut && atClient === 'open' && atGateway === 'open') continue;
      this.#endAtClient(connection, this.#legMs());
      time.after(this.#legMs(), () => this.#endAtGateway(connection));
    }
  }

  #dial(owner: Process, url: URL, tell: Tell): Connection {
    const { chance, conditions, time } = this.#parts;
    this.#opened += 1;
    const id = `C-${owner.name}-${this.#opened}`;
    const ends = { atClient: 'opening', atGateway: 'opening' } as const;
    const connection: Connection = { id, owner, tell, ...ends, isCut: false, downAt: 0, upAt: 0 };
    this.#connections.set(id, connection);
    // A connection dies with its process. The gateway notices it soon, late, or when the connection was idle for too long.
    owner.onDeath(() => {
      connection.atClient = 'ended';
      time.after(this.#isCalm ? this.#legMs() : chance.longTailed(2_000, 60_000), () => this.#endAtGateway(connection));
    });
    time.after(this.#legMs(), () => {
      if (!this.#isCalm && chance.happens(conditions.requestLost)) this.#fail(connection);
      else this.#arrive(connection, Object.fromEntries(url.searchParams));
    });
    return connection;
  }

  #arrive(connection: Connection, query: Readonly<Record<string, string>>): void {
    const { time, chance, conditions, watcher, verdicts } = this.#parts;
    const { id, owner } = connection;
    const host = this.#anyHost();
    if (host === undefined) {
      this.#fail(connection);
      return;
    }
    host.process.deliver(async () => {
      const opening = { requestId: `open-${id}`, connectionId: id, connectedAt: time.now(), query };
      const status = await host.connect(opening);
      if (!host.process.isAlive) return;
      verdicts.count(`sockets: opening answered ${status}`);
      if (status >= 400) {
        this.#fail(connection);
        return;
      }
      connection.atGateway = 'open';
      watcher.opened(id, owner.name);
      if (Number.isFinite(conditions.socketLivesMs))
        time.after(chance.longTailed(conditions.socketLivesMs, 600_000), () => this.#break(connection));
      time.after(this.#legMs(), () => {
        // If the client has left in the meantime, the connection ends.
        if (connection.atClient === 'ended') this.#endAtGateway(connection);
        else if (!connection.isCut)
          owner.deliver(() => {
            if (connection.atClient !== 'opening') return;
            connection.atClient = 'open';
            connection.tell('open', nothing);
          });
      });
    });
  }

  /** The handshake fails. The client may learn that only by its own time limit. */
  #fail(connection: Connection): void {
    connection.atGateway = 'ended';
    if (this.#parts.chance.happens(0.7)) this.#endAtClient(connection, this.#legMs());
  }

  /** The handler of messages answers every message of a client. */
  #say(connection: Connection): void {
    const { time, verdicts } = this.#parts;
    if (connection.atClient !== 'open') return;
    connection.upAt = Math.max(connection.upAt, time.now() + this.#legMs());
    time.after(connection.upAt - time.now(), () => {
      if (connection.isCut) return;
      // If a client sends on a connection that is over, it learns that.
      if (connection.atGateway !== 'open') {
        this.#endAtClient(connection, this.#legMs());
        return;
      }
      const host = this.#anyHost();
      host?.process.deliver(async () => {
        const answer = await host.message(connection.id);
        if (!host.process.isAlive || connection.atGateway !== 'open') return;
        verdicts.count('sockets: messages answered');
        this.#pass(connection, answer);
      });
    });
  }

  #pass(connection: Connection, text: string): void {
    const { time, chance, verdicts } = this.#parts;
    const lateMs = this.#isCalm ? 0 : chance.longTailed(50, 5_000);
    connection.downAt = Math.max(connection.downAt, time.now() + this.#legMs() + lateMs);
    time.after(connection.downAt - time.now(), () => {
      if (connection.isCut || connection.atClient !== 'open') {
        verdicts.count('sockets: a message is lost');
        return;
      }
      connection.owner.deliver(() => {
        if (connection.atClient === 'open') connection.tell('message', { data: text });
      });
    });
  }

  #closeByClient(connection: Connection): void {
    connection.atClient = 'ended';
    this.#parts.time.after(this.#legMs(), () => this.#endAtGateway(connection));
  }

  #break(connection: Connection): void {
    const { time, chance, verdicts } = this.#parts;
    if (connection.atGateway !== 'open' || connection.atClient === 'ended') return;
    const [kind, breakIt] = this.#isCalm ? this.#breaks.both : chance.pick(Object.values(this.#breaks));
    verdicts.count(`sockets: ${kind}`);
    breakIt(connection, time, chance);
  }

  readonly #breaks = {
    both: [
      'a connection breaks',
      (connection: Connection) => {
        this.#endAtClient(connection, this.#legMs());
        this.#parts.time.after(this.#legMs(), () => this.#endAtGateway(connection));
      },
    ],
    client: [
      'a client sees the break first',
      (connection: Connection, time: VirtualTime, chance: Chance) => {
        connection.isCut = true;
        this.#endAtClient(connection, this.#legMs());
        time.after(chance.longTailed(3_000, 30_000), () => this.#endAtGateway(connection));
      },
    ],
    gateway: [
      'the gateway sees the break first',
      (connection: Connection, _time: VirtualTime, chance: Chance) => {
        this.#endAtGateway(connection);
        this.#endAtClient(connection, chance.longTailed(3_000, 60_000));
      },
    ],
    neither: ['nobody sees the break', (connection: Connection) => this.#breakUnnoticed(connection)],
  } as const;

  #breakUnnoticed(connection: Connection): void {
    const { time, chance } = this.#parts;
    connection.isCut = true;
    this.#endAtClient(connection, chance.longTailed(8_000, 90_000));
    time.after(chance.longTailed(8_000, 90_000), () => this.#endAtGateway(connection));
  }

  #endAtClient(connection: Connection, ms: number): void {
    this.#parts.time.after(ms, () =>
      connection.owner.deliver(() => {
        if (connection.atClient === 'ended') return;
        connection.atClient = 'ended';
        connection.tell('close', nothing);
      }),
    );
  }

  /** The gateway tells one host, once. It may be late, and sometimes it tells nobody. */
  #endAtGateway(connection: Connection): void {
    const { time, chance, conditions, verdicts, watcher } = this.#parts;
    if (connection.atGateway !== 'open') return;
    connection.atGateway = 'ended';
    const { id } = connection;
    watcher.ended(id);
    if (!this.#isCalm && chance.happens(conditions.socketEndsUntold)) {
      verdicts.count('sockets: an end is told to nobody');
      return;
    }
    const lateMs = this.#isCalm ? 0 : chance.longTailed(300, 20_000);
    if (lateMs > 1_000) verdicts.count('sockets: an end is told late');
    time.after(this.#legMs() + lateMs, () => {
      const host = this.#anyHost();
      host?.process.deliver(async () => {
        const isDone = await host.disconnect(id);
        if (isDone && host.process.isAlive) watcher.disconnected(id);
      });
    });
  }

  #anyHost(): SocketHost | undefined {
    const running = this.#parts.hosts().filter(({ process }) => process.isAlive);
    return running.length === 0 ? undefined : this.#parts.chance.pick(running);
  }

  get #isCalm(): boolean {
    return this.#parts.weather.calm;
  }

  #legMs(): number {
    const { chance, conditions } = this.#parts;
    const { networkMs } = conditions;
    return 1 + (this.#isCalm ? chance.between(0, networkMs) : chance.longTailed(networkMs, 10_000));
  }
}
