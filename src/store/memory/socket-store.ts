import type { EpochMs } from '../../time/clock.ts';
import type { Connection, ParkedWait, SocketStore, Ticket } from '../socket-store.ts';

/** Tickets and parked waits in memory, for simulation and for users' own tests. */
export class MemorySockets implements SocketStore {
  readonly #tickets = new Map<string, Ticket>();
  readonly #waits = new Map<string, Map<string, ParkedWait>>();
  readonly #connection: (connectionId: string) => Connection | undefined;

  constructor(connection: (connectionId: string) => Connection | undefined) {
    this.#connection = connection;
  }

  async issue(secret: string, ticket: Ticket): Promise<void> {
    this.#tickets.set(secret, ticket);
  }

  async redeem(secret: string, now: EpochMs): Promise<Connection | undefined> {
    const ticket = this.#tickets.get(secret);
    this.#tickets.delete(secret);
    if (ticket === undefined || ticket.expiresAt <= now) return undefined;
    return { namespace: ticket.namespace, caller: ticket.caller };
  }

  async connection(connectionId: string): Promise<Connection | undefined> {
    return this.#connection(connectionId);
  }

  async noteWait(connectionId: string, wait: ParkedWait): Promise<void> {
    const waits = this.#waits.get(connectionId) ?? new Map<string, ParkedWait>();
    waits.set(`${wait.key.name}/${wait.leaseId}`, wait);
    this.#waits.set(connectionId, waits);
  }

  async waitsOn(connectionId: string, namespace: string): Promise<readonly ParkedWait[]> {
    const waits = this.#waits.get(connectionId)?.values() ?? [];
    return [...waits].filter(({ key }) => key.namespace === namespace);
  }
}
