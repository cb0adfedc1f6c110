import type { EpochMs } from '../time/clock.ts';
import type { LockKey } from './lock-store.ts';

/** Who a WebSocket connection belongs to. It never changes while the connection lasts. */
export interface Connection {
  readonly namespace: string;
  readonly caller: string;
}

/** The right to open one connection, once. */
export interface Ticket extends Connection {
  readonly expiresAt: EpochMs;
}

/** A waiter that is parked on a connection. */
export interface ParkedWait {
  readonly key: LockKey;
  readonly leaseId: string;
}

/** Tickets, open connections, and what is parked on them. */
export interface SocketStore {
  issue(secret: string, ticket: Ticket): Promise<void>;

  /** Uses a ticket up. Undefined if it is unknown, used or too old: nobody learns which. */
  redeem(secret: string, now: EpochMs): Promise<Connection | undefined>;

  /** Strongly consistent, so that a connection whose end was noted is not found any more. */
  connection(connectionId: string): Promise<Connection | undefined>;

  /** Notes a wait before it begins, so that the end of its connection finds it. */
  noteWait(connectionId: string, wait: ParkedWait, until: EpochMs): Promise<void>;

  /** Everything that was noted for a connection. A wait may be over, or parked on another connection by now. */
  waitsOn(connectionId: string, namespace: string): Promise<readonly ParkedWait[]>;
}
