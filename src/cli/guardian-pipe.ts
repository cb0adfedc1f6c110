import { type ChildProcess, spawn } from 'node:child_process';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

// The program's file has the same extension as this one: .ts in the sources, .js in the published package.
const program = fileURLToPath(new URL(`guardian${extname(import.meta.url)}`, import.meta.url));

/** Starts the guardian process and writes to its input. The guardian ends the command if the holder is gone. */
export class GuardianPipe {
  readonly #guardian: ChildProcess;
  #over = false;

  /** `onGone` is called if the guardian itself dies. From then on nothing would end the command. */
  constructor(graceMs: number, onGone: () => void) {
    const guardian = spawn(process.execPath, [program, String(graceMs)], {
      detached: true,
      // The guardian must not hold the command's output open, because a reader of that pipe waits for its end.
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

  /** What the guardian ends: a process group, given as a negative number, or one process. */
  target(pid: number): void {
    this.#write(`target ${pid}`);
  }

  /** The lock is certainly held for this long from now. */
  held(ms: number): void {
    this.#write(`held ${Math.max(0, Math.round(ms))}`);
  }

  done(): void {
    this.#write('done');
    this.#over = true;
    this.#guardian.stdin?.end();
  }

  #write(line: string): void {
    if (!this.#over) this.#guardian.stdin?.write(`${line}\n`);
  }
}
