import { describe, expect, it, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { Connection, ConnectionTable, defaultWebsocketLimits as limits } from '../../../src/local/connections.ts';
import { after, epochMs } from '../../../src/time/clock.ts';

/** As much of a socket as a connection uses. It notes what is done to it. */
class FakeSocket {
  readonly OPEN = 1;
  readyState = 1;
  bufferedAmount = 0;
  readonly done: string[] = [];

  send(text: string): void {
    this.done.push(`send ${text}`);
  }
  ping(): void {
    this.done.push('ping');
  }
  terminate(): void {
    this.done.push('terminate');
  }
  close(code: number): void {
    this.done.push(`close ${code}`);
  }
}

const connectedAt = epochMs(1_000_000);

function open() {
  const socket = new FakeSocket();
  const connection = new Connection({ connectionId: 'c', connectedAt }, socket as unknown as WebSocket);
  const check = (ms: number) => connection.check(after(connectedAt, ms), limits);
  return { socket, connection, check };
}

describe('a connection at its heartbeat', () => {
  it('is pinged, and is cut if the ping before was not answered', () => {
    const { socket, connection, check } = open();
    check(30_000);
    connection.isAwaitingPong = false;
    check(60_000);
    expect(socket.done).toEqual(['ping', 'ping']);
    check(90_000);
    expect(socket.done).toEqual(['ping', 'ping', 'terminate']);
  });

  it('is left alone while a handler works for it, because its socket is not read then', () => {
    const { socket, connection, check } = open();
    check(30_000);
    connection.unanswered = 1;
    check(60_000);
    expect(socket.done).toEqual(['ping']);
  });

  it('is closed after ten minutes without a message, and not before', () => {
    const { socket, check } = open();
    check(limits.idleMs - 1);
    check(limits.idleMs);
    expect(socket.done).toEqual(['ping', 'close 1001']);
  });

  it('is closed after two hours, however busy it is', () => {
    const { socket, connection, check } = open();
    connection.lastMessageAtMs = connectedAt + limits.lifeMs;
    check(limits.lifeMs - 1);
    check(limits.lifeMs);
    expect(socket.done).toEqual(['ping', 'close 1001']);
  });
});

describe('a message to a connection', () => {
  it('counts as use of the connection', () => {
    vi.useFakeTimers({ now: connectedAt + 599_000 });
    try {
      const { connection } = open();
      expect(connection.send('x', limits)).toBe('sent');
      expect(connection.lastMessageAtMs).toBe(connectedAt + 599_000);
    } finally {
      vi.useRealTimers();
    }
  });

  it('is gone if the connection is not open', () => {
    const { socket, connection } = open();
    socket.readyState = 2;
    expect(connection.send('x', limits)).toBe('gone');
    expect(socket.done).toEqual([]);
  });

  it('has a largest size in bytes', () => {
    const { socket, connection } = open();
    const most = 'é'.repeat(limits.messageBytesMax / 2);
    expect(connection.send(most, limits)).toBe('sent');
    expect(() => connection.send(`${most}.`, limits)).toThrow(
      `A message has at most ${limits.messageBytesMax} bytes, got ${limits.messageBytesMax + 1}.`,
    );
    expect(socket.done).toHaveLength(1);
  });

  it('cuts a connection that reads too slowly', () => {
    const { socket, connection } = open();
    socket.bufferedAmount = limits.bufferedBytesMax - 1;
    expect(connection.send('x', limits)).toBe('sent');
    expect(connection.send('xy', limits)).toBe('gone');
    expect(socket.done).toEqual(['send x', 'terminate']);
  });
});

describe('the table of connections', () => {
  it('posts to and closes a connection by its id, and forgets one that was removed', async () => {
    const { socket, connection } = open();
    const table = new ConnectionTable({ messageBytesMax: 3 });
    table.add(connection);
    expect([table.size, [...table]]).toEqual([1, [connection]]);
    expect(table.limits).toEqual({ ...limits, messageBytesMax: 3 });
    expect(await table.post('c', 'abc')).toBe('sent');
    await expect(table.post('c', 'abcd')).rejects.toThrow(RangeError);
    table.close('c');
    table.close('other');
    expect(await table.post('other', 'abc')).toBe('gone');
    table.remove(connection);
    expect(await table.post('c', 'abc')).toBe('gone');
    expect([table.size, socket.done]).toEqual([0, ['send abc', 'close 1000']]);
  });
});
