import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Bill } from './bill.ts';
import { amountOf } from './facts.ts';

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

type Handler<Input, Output> = (input: Input) => Promise<Output>;

interface Execution<Input, Output> {
  readonly handle: Handler<Input, Output>;
  readonly generation: number;
}

export interface FunctionParts<Input, Output> {
  readonly time: VirtualTime;
  readonly bill: Bill;
  readonly account: Account;
  /** What this function may run at once; absent: what the account has left. */
  readonly concurrencyMax?: number | undefined;
  /** A new process, with a memory of its own. */
  readonly create: () => Handler<Input, Output>;
}

/**
 * A function as Lambda runs it: one call at a time in each execution environment, a new one with a cold start if all are busy,
 * and what it remembers is lost when a deployment replaces it.
 */
export class LambdaFunction<Input, Output> {
  readonly #parts: FunctionParts<Input, Output>;
  #idle: Execution<Input, Output>[] = [];
  #generation = 0;
  running = 0;
  mostRunning = 0;
  coldStarts = 0;
  refused = 0;

  constructor(parts: FunctionParts<Input, Output>) {
    this.#parts = parts;
  }

  async invoke(input: Input): Promise<Output> {
    const { time, bill, account, concurrencyMax = Number.POSITIVE_INFINITY } = this.#parts;
    if (!account.hasRoom || this.running >= concurrencyMax) {
      this.refused += 1;
      throw new NoExecutionLeft();
    }
    account.enter();
    this.running += 1;
    this.mostRunning = Math.max(this.mostRunning, this.running);
    const startedAt = time.now();
    const execution = await this.#execution();
    try {
      return await execution.handle(input);
    } finally {
      this.running -= 1;
      account.leave();
      bill.invocations += 1;
      bill.gigabyteSeconds += ((time.now() - startedAt + amountOf('handlerMs')) / 1000) * (amountOf('memoryMb') / 1024);
      if (execution.generation === this.#generation) this.#idle.push(execution);
    }
  }

  /** A deployment: calls under way end where they are, and every later one starts in a new environment. */
  replaceAll(): void {
    this.#generation += 1;
    this.#idle = [];
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
