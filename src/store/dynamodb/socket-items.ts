/**
 * Tickets and parked waits in the table.
 *
 *     #ticket/{digest}       ticket    namespace, caller, end: the ticket itself is a secret, so its key is a digest
 *     {ns}/waits/{id}        {digest}  a wait that is parked on this connection, by a digest of its lease
 *
 * No namespace begins with "#", so a right to one namespace's keys never reaches a ticket or a connection.
 */
import { createHash, randomUUID } from 'node:crypto';
import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import type { Connection, ParkedWait, SocketStore, Ticket } from '../socket-store.ts';
import type { ItemKey } from './attributes.ts';
import { text, update } from './attributes.ts';
import { connectionKey } from './connection-items.ts';
import { TableStore } from './item-table.ts';

/** The waits of a connection are read when it ends. API Gateway may report that late. */
const waitKeptMs = 3_600_000;

const words = { partition: 'pk', expiresAt: 'end', usedBy: 'used' };

const digest = (secret: string): string => createHash('sha256').update(secret).digest('base64url');
const ticketKey = (secret: string): ItemKey => ({ pk: `#ticket/${digest(secret)}`, sk: 'ticket' });
const waitsPartition = (namespace: string, connectionId: string): string => `${namespace}/waits/${connectionId}`;

export class DynamoDBSockets extends TableStore implements SocketStore {
  async issue(secret: string, { namespace, caller, expiresAt }: Ticket): Promise<void> {
    const ttl = toTtlSeconds(expiresAt);
    await this.table.replace({ ...ticketKey(secret), namespace, caller, [words.expiresAt]: expiresAt, ttl });
  }

  async redeem(secret: string, now: EpochMs): Promise<Connection | undefined> {
    // A ticket works once. If two callers use the same ticket, one of them is refused.
    const by = randomUUID();
    const used = update(
      {
        set: ['usedBy = :by'],
        when: 'attribute_exists(partition) AND attribute_not_exists(usedBy) AND expiresAt > :now',
      },
      words,
      { by, now },
    );
    const { item } = await this.table.update(ticketKey(secret), used);
    // If the answer to a first try was lost, the refused repeat shows that this call has used the ticket.
    if (item?.[words.usedBy] !== by) return undefined;
    return { namespace: text(item, 'namespace'), caller: text(item, 'caller') };
  }

  async connection(connectionId: string): Promise<Connection | undefined> {
    const item = await this.table.get(connectionKey(connectionId));
    return item === undefined ? undefined : { namespace: text(item, 'namespace'), caller: text(item, 'caller') };
  }

  async noteWait(connectionId: string, { key, leaseId }: ParkedWait, until: EpochMs): Promise<void> {
    const { namespace, name } = key;
    const pk = waitsPartition(namespace, connectionId);
    const sk = digest(`${name}/${leaseId}`);
    await this.table.replace({ pk, sk, lock: name, leaseId, ttl: toTtlSeconds(after(until, waitKeptMs)) });
  }

  async waitsOn(connectionId: string, namespace: string): Promise<readonly ParkedWait[]> {
    const items = await this.table.query({
      where: 'partition = :waits',
      words,
      values: { waits: waitsPartition(namespace, connectionId) },
      consistent: true,
    });
    return items.map((item) => ({ key: { namespace, name: text(item, 'lock') }, leaseId: text(item, 'leaseId') }));
  }
}
