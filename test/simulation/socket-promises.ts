/**
 * The promises about waiting by push. A lost message delays a grant until the client asks again at most. A waiter whose connection
 * broke keeps its place. Nobody waits for a client that is gone. Secrets are sent only to the owner's own connection.
 */
import { lockLimits } from '../../src/lock/limits.ts';
import type { LockState, Waiter } from '../../src/lock/state.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from './chance.ts';
import type { Process } from './process.ts';
import type { SocketWatcher } from './sockets.ts';
import type { LockWrite } from './table.ts';
import type { Verdicts } from './verdicts.ts';

/**
 * A parked wait asks after 25 s at most, and after two more if its socket must be opened first. A poll that was open at the time of
 * the grant and is lost takes 35 s at most: 25 for itself and ten for its answer. Then it is sent again.
 */
const silenceMsMax = 40_000;
/** Without faults, the time for the work of a host after it learned of the end of a connection. */
const absentMsMax = 5_000;

const leaseIds = /\bL-([a-z]+\d+)-\d{16}\b/g;

interface SocketPromisesParts {
  readonly time: VirtualTime;
  readonly verdicts: Verdicts;
  readonly states: () => ReadonlyMap<string, LockState>;
  readonly processOf: (client: string) => Process | undefined;
  /** How far two clocks may differ. */
  readonly skewMsMax: number;
}

interface Known {
  readonly client: string;
  isOver: boolean;
}

/** A grant whose owner has not sent or received anything since. */
interface Unheard {
  readonly client: string;
  readonly at: number;
  readonly pausedMs: number;
}

const connectionOf = ({ notify }: Pick<Waiter, 'notify'>): string | undefined =>
  notify?.type === 'websocket' ? notify.connectionId : undefined;

const clientOf = (leaseId: string): string => leaseId.split('-')[1] ?? '';

export class SocketPromises implements SocketWatcher {
  /** Since when nothing fails any more. Connections go on breaking. */
  calmSince = Number.POSITIVE_INFINITY;
  readonly #parts: SocketPromisesParts;
  readonly #connections = new Map<string, Known>();
  /** Connections of clients without the SDK. They do not ask every 25 s. */
  readonly #bare = new Set<string>();
  readonly #unheard = new Map<string, Unheard>();
  /** The latest places in queues, by lease. */
  readonly #places = new Map<string, Waiter>();
  /** Leases that have held a lock. If a copy of a request comes after the lock has forgotten its lease, nobody expects its grant. */
  readonly #held = new Set<string>();

  constructor(parts: SocketPromisesParts) {
    this.#parts = parts;
  }

  opened(connectionId: string, client: string): void {
    this.#parts.verdicts.count('sockets: opened');
    this.#connections.set(connectionId, { client, isOver: false });
  }

  withoutSdk(connectionId: string): void {
    this.#bare.add(connectionId);
  }

  /** An open connection of somebody else. */
  anyOf(chance: Chance, other: string): string | undefined {
    const open = [...this.#connections].filter(([, { client, isOver }]) => !isOver && client !== other);
    return open.length === 0 ? undefined : chance.pick(open)[0];
  }

  posted(connectionId: string, text: string): void {
    const { verdicts } = this.#parts;
    const owner = this.#connections.get(connectionId)?.client;
    for (const [secret, client] of text.matchAll(leaseIds))
      if (client !== owner) verdicts.breach('secrets', `${secret} was posted to a connection of ${owner}`, text);
  }

  ended(connectionId: string): void {
    const known = this.#connections.get(connectionId);
    if (known !== undefined) known.isOver = true;
  }

  disconnected(connectionId: string): void {
    const { time, verdicts, states, skewMsMax } = this.#parts;
    verdicts.count('sockets: an end is told');
    if (time.now() < this.calmSince) return;
    time.after(absentMsMax, () => {
      const latest = time.now() + lockLimits.waiterAbsenceMs + skewMsMax;
      for (const [name, { queue }] of states())
        for (const waiter of queue)
          if (connectionOf(waiter) === connectionId && waiter.presentUntil > latest)
            verdicts.breach('first in, first out', `${name}: ${waiter.leaseId} counts as there without a connection`, {
              waiter,
            });
    });
  }

  /** A client sent a request or got an answer, so it learns what happened to its lease. */
  heardOf(leaseId: string | undefined): void {
    if (leaseId !== undefined) this.#unheard.delete(leaseId);
  }

  /** Nobody waits on the connection of another. */
  parked(client: string, connectionId: string, status: number): void {
    const owner = this.#connections.get(connectionId)?.client;
    if (owner === client || owner === undefined) return;
    this.#parts.verdicts.count('sockets: a foreign connection is named');
    if (status === 200 || status === 202)
      this.#parts.verdicts.breach('secrets', `${client} waits on a connection of ${owner}`, connectionId);
  }

  written({ name, before, after, cause }: LockWrite): void {
    for (const waiter of before.queue) {
      const kept = after.queue.find(({ leaseId }) => leaseId === waiter.leaseId);
      if (kept !== undefined) this.#checkPresence(name, waiter, kept);
      this.#places.set(`${name} ${waiter.leaseId}`, kept ?? waiter);
    }
    for (const waiter of after.queue)
      if (before.queue.every(({ leaseId }) => leaseId !== waiter.leaseId)) this.#checkPlace(name, waiter);
    for (const holder of after.holders) {
      const connectionId = connectionOf(holder);
      const isNew = before.holders.every(({ fence }) => fence !== holder.fence);
      const isAnswered = cause.leaseId === holder.leaseId;
      const isExpected = isNew && !this.#held.has(`${name} ${holder.leaseId}`);
      this.#held.add(`${name} ${holder.leaseId}`);
      if (isExpected && !isAnswered && holder.queuedAt !== undefined && connectionId !== undefined)
        this.#expect(name, holder.leaseId, connectionId);
    }
  }

  /** A waiter that is parked on an open connection is present. */
  #checkPresence(name: string, waiter: Waiter, kept: Waiter): void {
    const connectionId = connectionOf(kept);
    if (connectionId === undefined || connectionOf(waiter) !== connectionId || kept.presentUntil >= waiter.presentUntil)
      return;
    const isOpen = this.#connections.get(connectionId)?.isOver === false;
    this.#parts.verdicts.count('sockets: a waiter becomes absent');
    if (isOpen)
      this.#parts.verdicts.breach(
        'first in, first out',
        `${name}: ${kept.leaseId} counts as absent, and its connection is open`,
        { waiter, kept },
      );
  }

  /** Without other faults, a client that loses its connection comes back in time, and has its place. */
  #checkPlace(name: string, waiter: Waiter): void {
    const { time, verdicts, processOf, skewMsMax } = this.#parts;
    const earlier = this.#places.get(`${name} ${waiter.leaseId}`);
    if (earlier === undefined || connectionOf(earlier) === undefined || this.#isBare(earlier)) return;
    // A clock that is far behind makes an absence shorter.
    const mayBeShort = skewMsMax > lockLimits.graceMs;
    const isLate = earlier.queuedAt < this.calmSince || earlier.deadlineAt <= time.now() + skewMsMax;
    if (mayBeShort || isLate || processOf(clientOf(waiter.leaseId))?.isAlive !== true) return;
    verdicts.breach('first in, first out', `${name}: ${waiter.leaseId} came back and its place was gone`, {
      earlier,
      waiter,
    });
  }

  #isBare(waiter: Waiter): boolean {
    return this.#bare.has(connectionOf(waiter) ?? '');
  }

  #expect(name: string, leaseId: string, connectionId: string): void {
    const { time, verdicts, processOf } = this.#parts;
    const client = clientOf(leaseId);
    const process = processOf(client);
    if (process === undefined || this.#bare.has(connectionId)) return;
    verdicts.count('sockets: waits granted');
    const unheard: Unheard = { client, at: time.now(), pausedMs: process.pausedMs };
    this.#unheard.set(leaseId, unheard);
    const check = () => {
      if (this.#unheard.get(leaseId) !== unheard || !process.isAlive) return;
      // The time of its pauses does not count.
      const leftMs = silenceMsMax - (time.now() - unheard.at - (process.pausedMs - unheard.pausedMs));
      if (leftMs > 0) time.after(leftMs, check);
      else
        verdicts.breach(
          'one wake-up',
          `${name}: ${leaseId} was granted and not heard of for ${silenceMsMax} ms`,
          unheard,
        );
    };
    time.after(silenceMsMax, check);
  }
}
