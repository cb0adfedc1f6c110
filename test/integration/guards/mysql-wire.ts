import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { SqlStatement } from '../../../src/guards/sql.ts';

/**
 * The part of MySQL's protocol that logs in, sends a query and reads its reply. The flag that the guard must not depend
 * on is set at login.
 */
const capabilities = { protocol41: 0x200, secureConnection: 0x8000, foundRows: 0x2, pluginAuth: 0x80000 };

export interface MySql {
  query(sql: string): Promise<{ affectedRows: number; rows: Record<string, unknown>[] }>;
  run(statement: SqlStatement): Promise<{ affectedRows: number; rows: Record<string, unknown>[] }>;
  close(): void;
}

export async function connectMySql(port: number, options: { foundRows: boolean }): Promise<MySql> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  const next = packets(socket);
  await next();
  const flags =
    capabilities.protocol41 |
    capabilities.secureConnection |
    capabilities.pluginAuth |
    (options.foundRows ? capabilities.foundRows : 0);
  const login = Buffer.alloc(32);
  login.writeUInt32LE(flags, 0);
  login.writeUInt32LE(2 ** 24, 4);
  login.writeUInt8(45, 8); // utf8mb4_general_ci
  send(socket, 1, Buffer.concat([login, Buffer.from('root\0\0mysql_native_password\0')]));
  checkError(await next());

  // One query at a time: a second one waits until the reply to the first has been read.
  let turn: Promise<unknown> = Promise.resolve();
  const query: MySql['query'] = (sql) => {
    const reply = turn.then(async () => {
      send(socket, 0, Buffer.concat([Buffer.from([3]), Buffer.from(sql)]));
      return readResult(next);
    });
    turn = reply.catch(() => {});
    return reply;
  };
  return {
    query,
    // Exactly the text of the statement is prepared, with its values bound as variables.
    async run({ text, values }) {
      await query(`PREPARE fenced FROM ${literal(text)}`);
      for (const [i, value] of values.entries()) await query(`SET @p${i} = ${literal(value)}`);
      return query(`EXECUTE fenced${values.length > 0 ? ` USING ${values.map((_, i) => `@p${i}`).join(', ')}` : ''}`);
    },
    close: () => socket.destroy(),
  };
}

function literal(value: unknown): string {
  if (typeof value === 'number') return String(value);
  return `CONVERT(X'${Buffer.from(String(value)).toString('hex')}' USING utf8mb4)`;
}

async function readResult(next: () => Promise<Buffer>) {
  const head = checkError(await next());
  if (head[0] === 0) return { affectedRows: readLength(head, 1).value, rows: [] };
  const columns: string[] = [];
  for (let n = readLength(head, 0).value; n > 0; n--) columns.push(readStrings(await next(), 5)[4] ?? '');
  await next();
  const rows: Record<string, unknown>[] = [];
  for (let packet = checkError(await next()); packet[0] !== 0xfe; packet = checkError(await next())) {
    const cells = readStrings(packet, columns.length);
    rows.push(Object.fromEntries(columns.map((name, i) => [name, cells[i]])));
  }
  return { affectedRows: 0, rows };
}

function checkError(packet: Buffer): Buffer {
  if (packet[0] === 0xff) throw new Error(packet.toString('utf8', 3));
  return packet;
}

function readStrings(packet: Buffer, count: number): (string | null)[] {
  const strings: (string | null)[] = [];
  for (let at = 0; strings.length < count; ) {
    if (packet[at] === 0xfb) {
      strings.push(null);
      at += 1;
      continue;
    }
    const { value, end } = readLength(packet, at);
    strings.push(packet.toString('utf8', end, end + value));
    at = end + value;
  }
  return strings;
}

function readLength(packet: Buffer, at: number): { value: number; end: number } {
  const first = packet[at] ?? 0;
  return first < 0xfb ? { value: first, end: at + 1 } : { value: packet.readUInt16LE(at + 1), end: at + 3 };
}

function send(socket: Socket, sequence: number, payload: Buffer): void {
  const header = Buffer.alloc(4);
  header.writeUIntLE(payload.length, 0, 3);
  header.writeUInt8(sequence, 3);
  socket.write(Buffer.concat([header, payload]));
}

/** A function that returns the next packet, and waits for it if necessary. */
function packets(socket: Socket): () => Promise<Buffer> {
  const arrived: Buffer[] = [];
  const waiting: ((packet: Buffer) => void)[] = [];
  let received = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    while (received.length >= 4 && received.length >= 4 + received.readUIntLE(0, 3)) {
      const end = 4 + received.readUIntLE(0, 3);
      const packet = received.subarray(4, end);
      received = received.subarray(end);
      const reader = waiting.shift();
      if (reader) reader(packet);
      else arrived.push(packet);
    }
  });
  return async () => arrived.shift() ?? new Promise((resolve) => waiting.push(resolve));
}
