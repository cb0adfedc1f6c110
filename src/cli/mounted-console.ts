import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HttpTransport } from '../client/http-transport.ts';
import { bearer } from '../client/index.ts';
import { Console, newConsoleToken } from '../console/server/console.ts';
import type { LocalOptions } from '../local/options.ts';
import type { Running } from '../local/serve.ts';

/** The namespace of the commands that the banner suggests. */
const namespace = 'demo';

/** Serves the console on the service's own port. Returns its address, which contains the token. */
export function mountConsole(running: Running, options: LocalOptions): string {
  const { url } = running;
  const token = consoleToken(options);
  running.mount(
    new Console({
      // The console calls the service over HTTP like every other caller, so the page shows what callers get.
      transport: new HttpTransport({ url, auth: options.token === undefined ? undefined : bearer(options.token) }),
      serviceUrl: url,
      auth: options.token === undefined ? 'none' : 'bearer',
      token,
      namespace,
      namespaces: () => running.namespaces(),
      allowRevoke: options.allowRevoke,
    }),
  );
  return `${url}/console?token=${token}`;
}

/**
 * Kept with the data, so that an open page still works after a restart. Anybody who can read this file can read the
 * data too.
 */
function consoleToken({ memory, dataFolder }: LocalOptions): string {
  const token = newConsoleToken();
  if (memory) return token;
  const file = join(dataFolder, 'console-token');
  try {
    const kept = readFileSync(file, 'utf8').trim();
    // A file that was cut short or emptied must not become a token that can be guessed.
    if (kept.length >= token.length) return kept;
  } catch {
    // No token was saved yet.
  }
  mkdirSync(dataFolder, { recursive: true });
  writeFileSync(file, `${token}\n`, { mode: 0o600 });
  return token;
}
