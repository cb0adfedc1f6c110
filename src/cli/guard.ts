import { type ChildProcess, spawn } from 'node:child_process';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

// The sources are run as they are, the published package as JavaScript: the neighbour has the extension of this file.
const program = fileURLToPath(new URL(`guardian${extname(import.meta.url)}`, import.meta.url));

/** The holder's end of the pipe to the guardian, which ends the command when the holder is gone. */
export class Guard {
  readonly #guardian: ChildProcess;
  #over = false;

  /** `onGone` tells that the guardian itself has died, so that nobody stands by any more. */
  constructor(graceMs: number, onGone: () => void) {
    const guardian = spawn(process.execPath, [program, String(graceMs)], {
      detached: true,
      // It has no share in the command's output: a reader of a pipe must see the end when the command ends.
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    const gone = () => {
      if (this.#over) return;
      this.#over = true;
      onGone();
    };
    guardian.once('error', gone);
    guardian.once('exit', gone);
    guardian.stdin.on('error', gone);
    guardian.unref();
    (guardian.stdin as typeof guardian.stdin & { unref?: () => void }).unref?.();
    this.#guardian = guardian;
  }

  /** What to end: a process group by its negative number, or one process. */
  target(pid: number): void {
    this.#tell(`target ${pid}`);
  }

  /** The lock is surely held for so long from now. */
  held(ms: number): void {
    this.#tell(`held ${Math.max(0, Math.round(ms))}`);
  }

  done(): void {
    this.#tell('done');
    this.#over = true;
    this.#guardian.stdin?.end();
  }

  #tell(line: string): void {
    if (!this.#over) this.#guardian.stdin?.write(`${line}\n`);
  }
}
