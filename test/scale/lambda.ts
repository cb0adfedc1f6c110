import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Bill } from './bill.ts';
import { amountOf } from './facts.ts';
import type { Metrics } from './metrics.ts';
import { TokenBucket } from './token-bucket.ts';

/** How many executions an account runs at once, over all its functions. */
export class Account {
  readonly #max: number;
  running = 0;
  mostRunning = 0;

  constructor(max = amountOf('concurrencyPerAccount')) {
    this.#max = max;
  }

  get hasRoom(): boolean {
    return this.running < this.#max;
  }

  enter(): void {
    this.running += 1;
    this.mostRunning = Math.max(this.mostRunning, this.running);
  }

  leave(): void {
    this.running -= 1;
  }
}

/** Lambda has no execution left for this call. Nothing was done. */
export class NoExecutionLeft extends Error {}

/** The function crashed or reached its timeout. It may have had some of its effects. */
export class FunctionFailed extends Error {}

type Handler<Input, Output> = (input: Input) => Promise<Output>;

interface Execution<Input, Output> {
  readonly handle: Handler<Input, Output>;
  readonly generation: number;
}

export interface FunctionParts<Input, Output> {
  /** Its name in the stack, such as `HttpFunction`. */
  readonly name: string;
  readonly time: VirtualTime;
  readonly bill: Bill;
  readonly account: Account;
  readonly metrics: Metrics;
  readonly timeoutMs: number;
  /** How many executions this function may have at once. If missing, as many as the account has left. */
  readonly concurrencyMax?: number | undefined;
  /** Makes a new process, with its own memory. */
  readonly create: () => Handler<Input, Output>;
}

/**
 * A function as Lambda runs it. Each execution environment handles one call at a time. If all are busy, a new one has a cold start. After a
 * deployment the memory of all environments is lost.
 */
export class LambdaFunction<Input, Output> {
  readonly #parts: FunctionParts<Input, Output>;
  readonly #growth: TokenBucket;
  #idle: Execution<Input, Output>[] = [];
  #generation = 0;
  running = 0;
  mostRunning = 0;
  coldStarts = 0;
  refused = 0;
  /** Set by a scenario. Every call crashes, as after a broken deployment, or no call gets an execution. */
  trouble: 'crashes' | 'throttled' | undefined;

  constructor(parts: FunctionParts<Input, Output>) {
    this.#parts = parts;
    const perTenSeconds = amountOf('concurrencyGrowth');
    this.#growth = new TokenBucket(perTenSeconds / 10, parts.time.now(), perTenSeconds);
  }

  async invoke(input: Input): Promise<Output> {
    const { name, time, bill, account, metrics } = this.#parts;
    if (!this.#hasRoom()) {
      this.refused += 1;
      metrics.add('Throttles', name);
      throw new NoExecutionLeft();
    }
    account.enter();
    this.running += 1;
    this.mostRunning = Math.max(this.mostRunning, this.running);
    metrics.add('ConcurrentExecutions', name, this.running);
    metrics.add('Invocations', name);
    const startedAt = time.now();
    const execution = await this.#execution();
    try {
      const output = await this.#run(execution, input);
      if (execution.generation === this.#generation) this.#idle.push(execution);
      metrics.add('Errors', name, 0);
      return output;
    } catch (error) {
      metrics.add('Errors', name);
      throw new FunctionFailed(`${name} failed.`, { cause: error });
    } finally {
      this.running -= 1;
      account.leave();
      bill.invocations += 1;
      const tookMs = time.now() - startedAt + amountOf('handlerMs');
      metrics.add('Duration', name, tookMs);
      bill.gigabyteSeconds += (tookMs / 1000) * (amountOf('memoryMb') / 1024);
    }
  }

  /** A deployment. Running calls end in their environments, and every later call starts in a new one. */
  replaceAll(): void {
    this.#generation += 1;
    this.#idle = [];
  }

  #hasRoom(): boolean {
    const { time, account, concurrencyMax = Number.POSITIVE_INFINITY } = this.#parts;
    if (this.trouble === 'throttled' || !account.hasRoom || this.running >= concurrencyMax) return false;
    if (this.#idle.length > 0) return true;
    if (this.#growth.isEmpty(time.now())) return false;
    this.#growth.take(1);
    return true;
  }

  #run({ handle }: Execution<Input, Output>, input: Input): Promise<Output> {
    const { time, timeoutMs } = this.#parts;
    if (this.trouble === 'crashes') return Promise.reject(new Error('The process crashed.'));
    return new Promise((resolve, reject) => {
      const cancel = time.after(timeoutMs, () => reject(new Error(`Task timed out after ${timeoutMs} ms.`)));
      handle(input).then(resolve, reject).finally(cancel);
    });
  }

  async #execution(): Promise<Execution<Input, Output>> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    this.coldStarts += 1;
    const execution = { handle: this.#parts.create(), generation: this.#generation };
    await new Promise<void>((resolve) => this.#parts.time.after(amountOf('coldStartMs'), resolve));
    return execution;
  }
}
