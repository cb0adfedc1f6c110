import type { AddressInfo } from 'node:net';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Chance } from '../world/chance.ts';

/** A network between clients and a service. It delays data, and cuts connections at any point. */
export class BadProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #chance: Chance;
  readonly #target: number;
  /** If true, the proxy delays and cuts nothing. */
  calm = false;
  cuts = 0;

  constructor(target: number, chance: Chance) {
    this.#target = target;
    this.#chance = chance;
    this.#server = createServer((client) => this.#pass(client));
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(client: Socket): void {
    const service = connect(this.#target, '127.0.0.1');
    const both = [client, service];
    const cut = () => {
      for (const socket of both) socket.destroy();
    };
    for (const socket of both) {
      this.#sockets.add(socket);
      socket.on('error', cut);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        cut();
      });
    }
    this.#carry(client, service, cut);
    this.#carry(service, client, cut);
  }

  /**
   * Each piece may be late, and may be the last one. If a piece to the service is the last, the request is lost. If a
   * piece from the service is, its answer is lost.
   */
  #carry(from: Socket, to: Socket, cut: () => void): void {
    let earliest = 0;
    from.on('data', (bytes) => {
      if (!this.calm && this.#chance.happens(0.03)) {
        this.cuts += 1;
        cut();
        return;
      }
      const delayMs = this.calm ? 0 : this.#chance.longTailed(3, 400);
      // Bytes of one connection never overtake each other.
      earliest = Math.max(earliest, Date.now() + delayMs);
      setTimeout(() => to.writable && to.write(bytes), earliest - Date.now());
    });
  }
}
