/**
 * A hand-off to a waiter on a WebSocket is delivered by the process that wrote it, right after the write. If that fails, the notifier
 * delivers it from the stream.
 */
import type { Holder, LockKey } from '../lock/state.ts';
import { errorText } from '../tools/error-text.ts';
import { withinLimit } from '../tools/time-limit.ts';
import { namesOf } from './change-events.ts';
import { deliverBySocket, type SocketPorts } from './parked.ts';

/** A post takes tens of milliseconds. The answer to the release waits no longer than this. The notifier does the rest. */
const settleMsMax = 1_000;

export class HandOffs {
  readonly #ports: SocketPorts;
  readonly #underWay = new Set<Promise<void>>();

  constructor(ports: SocketPorts) {
    this.#ports = ports;
    // Only for writes of this process. Many processes may read the lock and see the same grant.
    ports.locks.grants.on((key, grantedTo) => this.#deliver(key, grantedTo));
  }

  /** Waits until all started deliveries have arrived, failed, or taken too long. It never fails. */
  async settle(): Promise<void> {
    if (this.#underWay.size === 0) return;
    await withinLimit(Promise.allSettled(this.#underWay), settleMsMax, this.#ports.locks.timers);
  }

  #deliver(key: LockKey, grantedTo: readonly Holder[]): void {
    for (const holder of grantedTo) {
      const { notify } = holder;
      if (notify?.type !== 'websocket') continue;
      const delivery = deliverBySocket(this.#ports, key, { ...holder, notify }).catch((error: unknown) => {
        // The stream shows the same change to the notifier, which tries again.
        this.#ports.log.warn('A hand-off was not delivered at once.', { ...namesOf(key), error: errorText(error) });
      });
      this.#underWay.add(delivery);
      void delivery.finally(() => this.#underWay.delete(delivery));
    }
  }
}
