import { cutTo } from './table.ts';

const marks = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/** Ten steps a second look smooth and cost nothing. */
const stepMs = 100;
const clearLine = '\r\u001b[2K';

/** One line that is drawn again and again until it is stopped, and then gone. It leaves the cursor alone, so that a kill -9 leaves a sound terminal. */
export class Spinner {
  /** Whether anybody sees it. */
  readonly turns: boolean;
  readonly #stream: NodeJS.WriteStream;
  readonly #prefix: (mark: string) => string;
  readonly #text: () => string;
  readonly #timer: NodeJS.Timeout | undefined;
  #step = 0;

  constructor(stream: NodeJS.WriteStream, turns: boolean, prefix: (mark: string) => string, text: () => string) {
    this.turns = turns;
    this.#stream = stream;
    this.#prefix = prefix;
    this.#text = text;
    if (!turns) return;
    this.#draw();
    this.#timer = setInterval(() => this.#draw(), stepMs);
    this.#timer.unref();
  }

  stop(): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#stream.write(clearLine);
  }

  #draw(): void {
    const mark = marks[this.#step++ % marks.length] ?? '';
    // The mark, its space, and one column kept free, since a full line wraps.
    const width = (this.#stream.columns || 80) - 3;
    this.#stream.write(`${clearLine}${this.#prefix(mark)}${cutTo(this.#text(), width)}`);
  }
}
