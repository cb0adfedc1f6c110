import { Writable } from 'node:stream';
import { runProgram } from '../../src/cli/program.ts';
import { type Finished, finishedWith, holdfastProgram, Program, plainEnv } from '../support/program.ts';

/** An output that is no terminal, and keeps what is written. */
function keptStream(): { readonly stream: NodeJS.WriteStream; readonly text: () => string } {
  let text = '';
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string, _, done) {
      text += chunk;
      done();
    },
  });
  return { stream: stream as unknown as NodeJS.WriteStream, text: () => text };
}

/** Runs the whole command line in this process. */
async function runHere(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Finished> {
  const [stdout, stderr] = [keptStream(), keptStream()];
  const streams = { stdout: stdout.stream, stderr: stderr.stream };
  const code = await runProgram(args, { ...plainEnv, ...env }, streams);
  return finishedWith(code, stdout.text(), stderr.text());
}

/** Runs commands against one service. */
export function cliOf(url: string, more: NodeJS.ProcessEnv = {}) {
  // Only a net: many processes that start at once keep the service waiting.
  const env = { HOLDFAST_URL: url, HOLDFAST_NAMESPACE: 'test', HOLDFAST_TIMEOUT: '2m', ...more };
  const start = (...args: string[]) => new Program(process.execPath, [holdfastProgram, ...args], { env });
  return {
    env,
    start,
    /**
     * Runs to the end in this process, where only what it answers is tested. A process of its own computes ten times as
     * much. It can't run a command, because that would get the output of this process.
     */
    runHere: (...args: string[]): Promise<Finished> => runHere(args, env),
    /** Runs to the end in a process of its own, with no input. */
    run: (...args: string[]): Promise<Finished> => {
      const running = start(...args);
      running.endInput();
      return running.finished;
    },
  };
}

export type Cli = ReturnType<typeof cliOf>;
