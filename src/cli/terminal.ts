import { styleText } from 'node:util';
import { type Spinner, spin } from './spinner.ts';
import { type Column, harmless, layTable } from './table.ts';

type Format = Parameters<typeof styleText>[0];

export interface TerminalStreams {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

export interface TerminalOptions {
  readonly json: boolean;
  /** False if --no-color was given. */
  readonly color: boolean;
  readonly env: NodeJS.ProcessEnv;
}

/** The output of a command: results on stdout, everything else on stderr, so that a pipe gets only results. */
export class Terminal {
  readonly json: boolean;
  readonly #streams: TerminalStreams;
  readonly #options: TerminalOptions;

  constructor(options: TerminalOptions, streams: TerminalStreams = process) {
    this.json = options.json;
    this.#options = options;
    this.#streams = streams;
  }

  /** True if a person reads the results as they come. */
  get isInteractive(): boolean {
    return !this.json && this.#streams.stdout.isTTY === true;
  }

  /** Only terminals get colors. A pipe or a file gets none, and any value of NO_COLOR turns them off. */
  styled(format: Format, text: string, stream: 'stdout' | 'stderr' = 'stdout'): string {
    const { color, env } = this.#options;
    const wanted = color && !env.NO_COLOR && env.TERM !== 'dumb' && this.#streams[stream].isTTY === true;
    return wanted ? styleText(format, text, { validateStream: false }) : text;
  }

  /** Text that ends its lines itself. */
  write(text: string): void {
    this.#streams.stdout.write(text);
  }

  /** One line of a result. */
  print(line: string): void {
    this.write(`${line}\n`);
  }

  printJson(value: unknown): void {
    this.print(JSON.stringify(value));
  }

  /** Prints the result as JSON if --json was given, else as `show` prints it. */
  result(value: unknown, show: () => void): void {
    if (this.json) this.printJson(value);
    else show();
  }

  table(columns: readonly (Column | string)[], rows: readonly (readonly string[])[]): void {
    const { stdout } = this.#streams;
    const text = layTable(
      columns.map((column) => (typeof column === 'string' ? { title: column } : column)),
      rows.map((row) => row.map(harmless)),
      {
        ...(stdout.isTTY ? { widthMax: stdout.columns || 80 } : {}),
        title: (title) => this.styled('dim', title),
      },
    );
    stdout.write(text);
  }

  /** A message for the person at the terminal. It is not part of the result. */
  note(text: string): void {
    if (this.json) this.errorJson({ note: text });
    else this.#streams.stderr.write(`${this.styled('dim', 'holdfast:', 'stderr')} ${text}\n`);
  }

  error(text: string): void {
    if (this.json) this.errorJson({ error: { message: text } });
    else this.#streams.stderr.write(`${this.styled(['red', 'bold'], 'holdfast:', 'stderr')} ${text}\n`);
  }

  errorJson(value: unknown): void {
    this.#streams.stderr.write(`${JSON.stringify(value)}\n`);
  }

  /** Shown on stderr during a wait. Draws nothing if stderr is not a terminal. */
  spinner(text: () => string): Spinner {
    const { stderr } = this.#streams;
    const visible = stderr.isTTY === true && this.#options.env.TERM !== 'dumb';
    return spin(stderr, visible, (mark) => `${this.styled('cyan', mark, 'stderr')} `, text);
  }
}
