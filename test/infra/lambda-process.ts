import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Does what Lambda does: finds the export that the handler setting names, and calls it with one event at a time. */
const runtime = `
  import { join } from 'node:path';
  import { pathToFileURL } from 'node:url';
  const [file, name] = process.env._HANDLER.split('.');
  const module = await import(pathToFileURL(join(process.env.LAMBDA_TASK_ROOT, file + '.mjs')));
  let requests = 0;
  process.on('message', async ({ event, timeoutMs }) => {
    const endsAt = Date.now() + timeoutMs;
    const context = {
      awsRequestId: 'request-' + ++requests,
      functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
      functionVersion: '$LATEST',
      invokedFunctionArn: 'arn:aws:lambda:us-east-1:111122223333:function:' + process.env.AWS_LAMBDA_FUNCTION_NAME,
      memoryLimitInMB: '512',
      callbackWaitsForEmptyEventLoop: true,
      getRemainingTimeInMillis: () => Math.max(0, endsAt - Date.now()),
    };
    try {
      // Lambda passes events and answers as JSON.
      process.send({ answer: JSON.parse(JSON.stringify((await module[name](event, context)) ?? null)) });
    } catch (error) {
      process.send({ error: String(error?.stack ?? error) });
    }
  });
  process.send({ ready: true });
`;

export interface LambdaSetting {
  readonly name: string;
  readonly folder: string;
  readonly handler: string;
  readonly timeoutMs: number;
  readonly environment: Readonly<Record<string, string>>;
}

/** A deployed function in its own process, which sees only its bundle and its environment. */
export class LambdaProcess {
  readonly #child: ChildProcess;
  readonly #timeoutMs: number;
  /** Every line that it wrote. */
  readonly log: string[] = [];

  private constructor(child: ChildProcess, timeoutMs: number) {
    this.#child = child;
    this.#timeoutMs = timeoutMs;
    for (const stream of [child.stdout, child.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on('line', (line) => this.log.push(line));
    }
  }

  static async start({ name, folder, handler, timeoutMs, environment }: LambdaSetting): Promise<LambdaProcess> {
    const taskRoot = join(folder, name);
    const child = spawn(process.execPath, ['--input-type=module', '-e', runtime], {
      cwd: taskRoot,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: { LAMBDA_TASK_ROOT: taskRoot, _HANDLER: handler, AWS_LAMBDA_FUNCTION_NAME: name, ...environment },
    });
    const started = new LambdaProcess(child, timeoutMs);
    const first = await Promise.race([once(child, 'message'), once(child, 'exit').then(() => undefined)]);
    if (first === undefined) throw new Error(`The ${name} function did not start:\n${started.log.join('\n')}`);
    return started;
  }

  /** One call at a time, as Lambda does. */
  async invoke<Answer>(event: unknown): Promise<Answer> {
    const answered = once(this.#child, 'message');
    this.#child.send({ event, timeoutMs: this.#timeoutMs });
    const [{ answer, error }] = (await answered) as [{ answer?: Answer; error?: string }];
    if (error !== undefined) throw new Error(error);
    return answer as Answer;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
  }
}
