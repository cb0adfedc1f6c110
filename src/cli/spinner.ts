import { cutTo } from './table.ts';

const marks = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/** Ten steps a second look smooth and cost almost nothing. */
const stepMs = 100;
const clearLine = '\r\u001b[2K';

export interface Spinner {
  /** False if there is no terminal to draw on. */
  readonly visible: boolean;
  stop(): void;
}

/**
 * Draws one line again and again until it is stopped, and then erases it. It never hides the cursor, so that the
 * terminal is usable after a kill -9.
 */
export function spin(
  stream: NodeJS.WriteStream,
  visible: boolean,
  prefix: (mark: string) => string,
  text: () => string,
): Spinner {
  if (!visible) return { visible, stop: () => {} };
  let step = 0;
  const draw = () => {
    const mark = marks[step++ % marks.length] ?? '';
    // Leaves space for the mark and the blank after it, and one free column: a full line would wrap.
    const width = (stream.columns || 80) - 3;
    stream.write(`${clearLine}${prefix(mark)}${cutTo(text(), width)}`);
  };
  draw();
  const timer = setInterval(draw, stepMs).unref();
  const stop = () => {
    clearInterval(timer);
    stream.write(clearLine);
  };
  return { visible, stop };
}
