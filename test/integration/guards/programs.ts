import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { delimiter, join } from 'node:path';

/** Debian keeps servers in folders that are not on every user's PATH. */
const moreFolders = ['/usr/sbin', '/usr/local/sbin'];

export function findProgram(name: string): string | null {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), ...moreFolders]) {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return join(folder, name);
    } catch {
      // Not in this folder.
    }
  }
  return null;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Starts a server and waits until it is ready. If the server ends before that, the error has its last output. */
export async function startServer(path: string, words: string[], ready: RegExp): Promise<ChildProcess> {
  const server = spawn(path, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  await new Promise<void>((resolve, reject) => {
    let said = '';
    const listen = (chunk: Buffer) => {
      said = (said + chunk).slice(-4000);
      if (ready.test(said)) resolve();
    };
    server.stdout.on('data', listen);
    server.stderr.on('data', listen);
    server.once('error', reject);
    server.once('exit', (code) => reject(new Error(`${path} ended with ${code} before it was ready:\n${said}`)));
  });
  return server;
}

export async function stopServer(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null) return;
  const ended = once(server, 'exit');
  server.kill('SIGTERM');
  await ended;
}
