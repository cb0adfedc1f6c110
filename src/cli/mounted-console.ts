import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HttpTransport } from '../client/http-transport.ts';
import { bearer } from '../client/index.ts';
import { Console, newConsoleToken } from '../console/server/console.ts';
import type { LocalOptions } from '../local/options.ts';
import type { Running } from '../local/serve.ts';

/** The namespace of the lines that the banner tells people to try. */
const namespace = 'demo';

/** Opens the console beside the service that was started here. Comes back with its address, which carries the token. */
export function mountConsole(running: Running, options: LocalOptions): string {
  const { url } = running;
  const token = consoleToken(options);
  running.mount(
    new Console({
      // By way of the port, as everybody else: what the page shows is what callers get.
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

/** Kept with the data, so that a page which is open goes on after a restart. Whoever can read it can read the data too. */
function consoleToken({ memory, dataFolder }: LocalOptions): string {
  const token = newConsoleToken();
  if (memory) return token;
  const file = join(dataFolder, 'console-token');
  try {
    const kept = readFileSync(file, 'utf8').trim();
    // A file that was cut short, or emptied by hand, must not become a token that can be guessed.
    if (kept.length >= token.length) return kept;
  } catch {
    // There is none yet.
  }
  mkdirSync(dataFolder, { recursive: true });
  writeFileSync(file, `${token}\n`, { mode: 0o600 });
  return token;
}
