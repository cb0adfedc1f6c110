import { cutTo } from './table.ts';

const marks = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/** Ten steps a second look smooth and cost almost nothing. */
const stepMs = 100;
const clearLine = '\r\u001b[2K';

/**
 * One line that is redrawn until it is stopped, and then erased. It never hides the cursor, so that the terminal is
 * usable after a kill -9.
 */
export class Spinner {
  /** False if there is no terminal to draw on. */
  readonly visible: boolean;
  readonly #stream: NodeJS.WriteStream;
  readonly #prefix: (mark: string) => string;
  readonly #text: () => string;
  readonly #timer: NodeJS.Timeout | undefined;
  #step = 0;

  constructor(stream: NodeJS.WriteStream, visible: boolean, prefix: (mark: string) => string, text: () => string) {
    this.visible = visible;
    this.#stream = stream;
    this.#prefix = prefix;
    this.#text = text;
    if (!visible) return;
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
    // Leaves space for the mark and the blank after it, and one free column: a full line would wrap.
    const width = (this.#stream.columns || 80) - 3;
    this.#stream.write(`${clearLine}${this.#prefix(mark)}${cutTo(this.#text(), width)}`);
  }
}
