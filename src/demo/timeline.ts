import { styleText } from 'node:util';

export type Actor = 'A' | 'B';

/** Prints the story. Only a terminal gets colors: a pipe gets none, and NO_COLOR turns them off. */
export class Timeline {
  readonly #stream: NodeJS.WriteStream;
  #startedMs = performance.now();

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  /** Begins an act and resets its clock. */
  act(number: number, title: string, explanation: string): void {
    this.#startedMs = performance.now();
    this.#print('', this.#styled('bold', `${number}. ${title}`), this.#styled('dim', `   ${explanation}`), '');
  }

  /** One step of a worker, with the service's answer. */
  step(actor: Actor, text: string, answer = ''): void {
    const seconds = `${((performance.now() - this.#startedMs) / 1000).toFixed(2)} s`;
    const who = this.#styled(actor === 'A' ? 'cyan' : 'magenta', actor);
    const shown = answer === '' ? '' : `  ${this.#styled('dim', `→ ${answer}`)}`;
    this.#print(`   ${this.#styled('dim', seconds.padStart(7))}  ${who}  ${text}${shown}`);
  }

  verdict(kind: 'good' | 'bad', text: string): void {
    const [color, mark] = kind === 'good' ? (['green', '✔'] as const) : (['red', '✘'] as const);
    this.#print('', `   ${this.#styled([color, 'bold'], `${mark} ${text}`)}`);
  }

  paragraph(...lines: string[]): void {
    this.#print('', ...lines);
  }

  #styled(format: Parameters<typeof styleText>[0], text: string): string {
    return styleText(format, text, { stream: this.#stream });
  }

  #print(...lines: string[]): void {
    this.#stream.write(`${lines.join('\n')}\n`);
  }
}
