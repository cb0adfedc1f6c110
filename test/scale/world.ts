/**
 * The deployed service under AWS's own limits, in virtual time.
 *
 *     SDK ──> API Gateway ──> Lambda: acquire, and all else ──> DynamoDB ──> stream ──> Lambda: notifier
 *
 * The code is what is deployed, down to the requests to DynamoDB. The boxes around it are modelled: `facts.ts` has every number.
 */
import { Holdfast } from '../../src/client/holdfast.ts';
import type { Runtime } from '../../src/client/runtime.ts';
import type { Answer, Call, Transport } from '../../src/client/transport.ts';
import { createTableInput } from '../../src/local/table.ts';
import { VirtualTime } from '../../src/testing/virtual-time.ts';
import { Chance } from '../simulation/chance.ts';
import { Bill } from './bill.ts';
import { delayOf } from './delays.ts';
import { amountOf } from './facts.ts';
import { Account, LambdaFunction, NoExecutionLeft } from './lambda.ts';
import { ModelledTable } from './modelled-table.ts';
import { handlerIn, tableName } from './service.ts';
import { TokenBucket } from './token-bucket.ts';

/** The ways to wait that are compared. */
export const ways = ['long poll', 'direct'] as const;
export type Waiting = (typeof ways)[number];

const acquiring = new Set(['acquireLock', 'acquireLocks']);

export class ScaleWorld {
  readonly time = new VirtualTime({ turnsToSettle: 1 });
  readonly bill = new Bill();
  readonly account: Account;
  readonly table: ModelledTable;
  readonly chance: Chance;
  /** Waiting requests have a function of their own, so that a release always finds an execution. */
  readonly acquire: LambdaFunction<Call, Answer>;
  readonly http: LambdaFunction<Call, Answer>;
  readonly #gatewayDelay: () => number;
  readonly #routes = new Map<string, TokenBucket>();
  /** What a client got that was no answer of ours: a throttled route, or no execution left. */
  refusedByGateway = 0;
  #clients = 0;

  constructor(seed: number, { concurrency, acquireMax }: { concurrency?: number; acquireMax?: number } = {}) {
    this.chance = new Chance(seed);
    this.account = new Account(concurrency);
    const { time, bill, account, chance } = this;
    this.table = new ModelledTable({ time, chance: chance.branch(), bill });
    this.table.engine.call('CreateTable', createTableInput(tableName));
    this.#gatewayDelay = delayOf(chance.branch(), 'gatewayMsP50', 'gatewayMsP99');
    const create = () => handlerIn({ time, chance: chance.branch(), table: this.table });
    this.acquire = new LambdaFunction({ time, bill, account, create, concurrencyMax: acquireMax });
    this.http = new LambdaFunction({ time, bill, account, create });
  }

  /** A process with the SDK: through API Gateway, or straight on the table. */
  client(waiting: Waiting, namespace = 'scale'): Holdfast {
    this.#clients += 1;
    const { time } = this;
    const name = `client-${this.#clients}`;
    const chance = this.chance.branch();
    let ids = 0;
    const runtime: Runtime = {
      monotonicMs: () => time.now() - time.startAt,
      wallMs: () => time.now(),
      after: time.after,
      random: chance.next,
      newId: () => `L-${name}-${String(++ids).padStart(12, '0')}`,
    };
    const transport = waiting === 'direct' ? this.#direct() : this.#throughGateway();
    return new Holdfast({ namespace, owner: name, transport, runtime });
  }

  #direct(): Transport {
    const { time, chance, table } = this;
    const handle = handlerIn({ time, chance: chance.branch(), table });
    return { request: (call) => handle(call) };
  }

  #throughGateway(): Transport {
    return {
      request: async (call) => {
        const halfMs = this.#gatewayDelay() / 2;
        await this.pause(halfMs);
        const answer = await this.#answer(call);
        await this.pause(halfMs);
        return answer;
      },
    };
  }

  async #answer(call: Call): Promise<Answer> {
    const { bill, time } = this;
    bill.requests += 1;
    const route = this.#routes.get(call.operation) ?? new TokenBucket(amountOf('gatewayRate'), time.now());
    this.#routes.set(call.operation, route);
    if (route.isEmpty(time.now())) return this.#refused(429);
    route.take(1);
    try {
      return await (acquiring.has(call.operation) ? this.acquire : this.http).invoke(call);
    } catch (error) {
      if (error instanceof NoExecutionLeft) return this.#refused(503);
      throw error;
    }
  }

  /** API Gateway's own words, which are not ours. */
  #refused(status: number): Answer {
    this.refusedByGateway += 1;
    return { status, headers: { 'content-type': 'application/json' }, body: { message: 'Service Unavailable' } };
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.time.after(ms, resolve));
  }
}
