import type { LockKey } from '../lock/state.ts';
import type { EpochMs } from '../time/clock.ts';

/** The caller of a WebSocket connection. It never changes while the connection lasts. */
export interface Connection {
  readonly namespace: string;
  readonly caller: string;
}

/** The right to open one connection, one time. */
export interface Ticket extends Connection {
  readonly expiresAt: EpochMs;
}

/** A waiter that is parked on a connection. */
export interface ParkedWait {
  readonly key: LockKey;
  readonly leaseId: string;
}

/** Tickets, open connections, and the waits parked on them. */
export interface SocketStore {
  issue(secret: string, ticket: Ticket): Promise<void>;

  /** Uses a ticket, which is then invalid. Undefined if it is unknown, used or too old. The caller is not told which. */
  redeem(secret: string, now: EpochMs): Promise<Connection | undefined>;

  /** Strongly consistent, so that a connection is not found after its end was noted. */
  connection(connectionId: string): Promise<Connection | undefined>;

  /** Notes a wait before it begins, so that it is found when its connection ends. */
  noteWait(connectionId: string, wait: ParkedWait, until: EpochMs): Promise<void>;

  /** All waits noted for a connection. Some may be over, or parked on another connection now. */
  waitsOn(connectionId: string, namespace: string): Promise<readonly ParkedWait[]>;
}
