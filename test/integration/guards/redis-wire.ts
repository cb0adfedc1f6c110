import { once } from 'node:events';
import { connect } from 'node:net';

/** The part of RESP2 that sends a command and reads its reply. Errors reject with the server's message. */
export async function connectRedis(port: number) {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  const waiting: PromiseWithResolvers<unknown>[] = [];
  let received = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    for (let reply = readReply(received, 0); reply; reply = readReply(received, 0)) {
      received = received.subarray(reply.end);
      const call = waiting.shift();
      if (reply.value instanceof Error) call?.reject(reply.value);
      else call?.resolve(reply.value);
    }
  });
  return {
    send(words: readonly (string | Uint8Array)[]): Promise<unknown> {
      const call = Promise.withResolvers<unknown>();
      waiting.push(call);
      const parts = words.map((word) => Buffer.from(word as string));
      const framed = parts.flatMap((bytes) => [Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]);
      socket.write(Buffer.concat([Buffer.from(`*${words.length}\r\n`), ...framed]));
      return call.promise;
    },
    close: () => socket.destroy(),
  };
}

/** The reply that starts at `start` and where it ends. Null if it has not arrived completely. */
function readReply(bytes: Buffer, start: number): { value: unknown; end: number } | null {
  const lineEnd = bytes.indexOf('\r\n', start);
  if (lineEnd === -1) return null;
  const line = bytes.toString('utf8', start + 1, lineEnd);
  const next = lineEnd + 2;
  switch (String.fromCharCode(bytes[start] ?? 0)) {
    case '+':
      return { value: line, end: next };
    case '-':
      return { value: new Error(line), end: next };
    case ':':
      return { value: Number(line), end: next };
    case '$': {
      const length = Number(line);
      if (length === -1) return { value: null, end: next };
      return bytes.length < next + length + 2
        ? null
        : { value: bytes.toString('utf8', next, next + length), end: next + length + 2 };
    }
    default: {
      const items: unknown[] = [];
      let end = next;
      for (let n = Number(line); n > 0; n--) {
        const item = readReply(bytes, end);
        if (!item) return null;
        items.push(item.value);
        end = item.end;
      }
      return { value: items, end };
    }
  }
}
