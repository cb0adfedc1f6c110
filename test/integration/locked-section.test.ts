/**
 * Runs the state machine of LockedSection, from acquire to release, with a local interpreter against the local service.
 */
import { randomUUID } from 'node:crypto';
import { Duration, type Stack } from 'aws-cdk-lib';
import {
  CustomState,
  DefinitionBody,
  type IChainable,
  JsonPath,
  StateMachine as Machine,
  Map as MapState,
  Pass,
} from 'aws-cdk-lib/aws-stepfunctions';
import { StateMachine } from 'aws-local-stepfunctions';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LockedSection, type LockService, type RenewState } from '../../infra/lock-service.ts';
import { createStack } from '../infra/synthesized.ts';
import { loadExample } from '../support/doc-examples.ts';
import { exactOnly } from '../support/engine.ts';
import { lockAt, newLeaseId, startService, type TestService } from '../support/service.ts';
import { definitionIn } from '../support/state-machine.ts';
import { startTasks } from './notify/sink.ts';

let tasks: Awaited<ReturnType<typeof startTasks>>;
let service: TestService;
beforeAll(async () => {
  tasks = await startTasks();
  service = await startService({ tasksUrl: tasks.url });
});
afterAll(async () => {
  await service.stop();
  await tasks[Symbol.asyncDispose]();
});

interface ApiCall {
  readonly Method: string;
  readonly Path: string;
  readonly RequestBody: { readonly notify?: { readonly token: string } };
}

/** An error as Step Functions names it. */
const failure = (name: string, cause: string): Error => Object.assign(new Error(cause), { name });

/** Does what `apigateway:invoke` does: an answer of 400 and above is an error named by its status. */
async function invoke({ Method, Path, RequestBody }: ApiCall): Promise<unknown> {
  const { status, body } = await service.call(Method, Path, RequestBody);
  if (status >= 400) throw failure(`ApiGateway.${status}`, JSON.stringify(body));
  return { StatusCode: status, ResponseBody: body };
}

/** The same with `.waitForTaskToken`: the result is the answer to the token. */
async function invokeAndWait(call: ApiCall): Promise<unknown> {
  await invoke(call);
  const token = call.RequestBody.notify?.token;
  const answer = await tasks.calls.until(({ taskToken }) => taskToken === token);
  if (answer.action === 'SendTaskFailure') throw failure(answer.error ?? '', 'told by the service');
  return JSON.parse(answer.output ?? '');
}

/** The name of the error with which the execution failed. */
const errorOf = (result: Promise<unknown>): Promise<string | undefined> =>
  result.then(
    () => undefined,
    (error: { cause: Error }) => error.cause.name,
  );

type Work = (stack: Stack, renew: RenewState) => IChainable;

/** The definition that the construct makes, around a task of the test. */
function definitionOf(work?: Work, wait = Duration.minutes(1), lease = Duration.minutes(10)): never {
  const stack = createStack();
  const section = new LockedSection(stack, 'Debit', {
    locks: stack.locks,
    namespace: 'test',
    lock: JsonPath.stringAt('$.wallet'),
    lease,
    wait,
    work: (renew) => work?.(stack, renew) ?? new Pass(stack, 'Begin').next(renew('Task', Duration.minutes(5))),
  });
  new Machine(stack, 'Machine', { definitionBody: DefinitionBody.fromChainable(section) });
  return definitionIn(stack) as never;
}

/** Runs an execution. `Task` is the work, which the test does itself. */
function start(
  definition: never,
  wallet: string,
  work: (input: unknown) => unknown,
  more: Record<string, unknown> = {},
  input: object = { wallet },
) {
  const name = randomUUID();
  const context = {
    Execution: { Id: `arn:${name}`, Name: name, Input: {}, StartTime: new Date().toISOString() },
    State: { Name: 'Acquire', EnteredTime: new Date().toISOString(), RetryCount: 0 },
    // Each task has a token of its own. The time at which its state was entered may be the same as that of others.
    Task: {
      get Token() {
        return `token-${randomUUID()}`;
      },
    },
  };
  const machine = new StateMachine(definition, { validationOptions: { checkArn: false } });
  const execution = machine.run(
    input as never,
    {
      context,
      overrides: {
        taskResourceLocalHandlers: {
          Acquire: (call: ApiCall) => invokeAndWait(call),
          Release: (call: ApiCall) => invoke(call),
          ReleaseAfterError: (call: ApiCall) => invoke(call),
          Task: work,
          ...more,
        },
        retryIntervalOverrides: { Acquire: 10, Task: 10, Release: 10, ReleaseAfterError: 10 },
      },
    } as never,
  );
  return { result: execution.result as Promise<unknown> };
}

const stateOf = async (lock: string) => (await lockAt(service.call, lock).inspect()).body.state;

describe.concurrent('docs/jobs.md', () => {
  it('runs a state machine one at a time for each wallet', async () => {
    type Example = { debitUnderLock(stack: Stack, locks: LockService, debit: IChainable): LockedSection };
    const { debitUnderLock } = await loadExample<Example>('jobs.md', 'A state machine');
    const stack = createStack();
    const debit = new CustomState(stack, 'Task', {
      stateJson: { Type: 'Task', Resource: 'arn:aws:lambda:eu-west-1:123456789012:function:debit' },
    });
    const section = debitUnderLock(stack, stack.locks, debit);
    new Machine(stack, 'Machine', { definitionBody: DefinitionBody.fromChainable(section) });
    const definition = definitionIn(stack) as never;
    const wallet = randomUUID();
    let [running, most] = [0, 0];
    const work = async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 50));
      running -= 1;
      return 'debited';
    };
    const executions = Array.from({ length: 3 }, () => start(definition, wallet, work).result);
    expect(await Promise.all(executions)).toEqual(['debited', 'debited', 'debited']);
    expect(most).toBe(1);
  });
});

describe.concurrent('a locked section in a Map', () => {
  it('runs 100 iterations that begin together over 5 locks, each exactly once, one at a time for each lock', async () => {
    const stack = createStack();
    const task = new CustomState(stack, 'Task', {
      stateJson: { Type: 'Task', Resource: 'arn:aws:lambda:eu-west-1:123456789012:function:debit' },
    });
    const section = new LockedSection(stack, 'Debit', {
      locks: stack.locks,
      namespace: 'test',
      lock: JsonPath.stringAt('$.wallet'),
      lease: Duration.minutes(10),
      work: task,
    });
    const map = new MapState(stack, 'Each', { itemsPath: '$.items' }).itemProcessor(section);
    new Machine(stack, 'Machine', { definitionBody: DefinitionBody.fromChainable(map) });
    const wallets = Array.from({ length: 5 }, () => randomUUID());
    const items = Array.from({ length: 100 }, (_, item) => ({ item, wallet: wallets[item % 5] }));
    const done: number[] = [];
    const atWork = new Set<string>();
    const work = async (input: unknown) => {
      const { item, wallet } = input as { item: number; wallet: string };
      expect(atWork.has(wallet), 'two at work under one lock').toBe(false);
      atWork.add(wallet);
      await new Promise((resolve) => setTimeout(resolve, 1));
      atWork.delete(wallet);
      done.push(item);
      return item;
    };
    const { result } = start(definitionIn(stack) as never, '', work, {}, { items });
    expect(await result).toEqual(items.map(({ item }) => item));
    expect(done.toSorted((a, b) => a - b)).toEqual(items.map(({ item }) => item));
  }, 300_000);
});

describe.concurrent('a locked section of a state machine', () => {
  const definition = definitionOf();

  it('takes a free lock, works with its fence and releases it', async () => {
    const wallet = randomUUID();
    const states: string[] = [];
    const { result } = start(definition, wallet, async () => {
      states.push(await stateOf(wallet));
      return 'renewed';
    });
    expect(await result).toMatchObject({ wallet, lock: { status: 'granted', fence: expect.any(Number) } });
    expect(states).toEqual(['held']);
    expect(await stateOf(wallet)).toBe('free');
  });

  it('waits in the queue behind a holder', async () => {
    const wallet = randomUUID();
    const lock = lockAt(service.call, wallet);
    const leaseId = newLeaseId();
    const { body: held } = await lock.acquire({ leaseId, leaseMs: 60_000 });
    const { result } = start(definition, wallet, () => 'done');
    while ((await lock.inspect()).body.queueDepth === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    await lock.release(leaseId);
    const { lock: granted } = (await result) as { lock: { fence: number } };
    expect(granted.fence).toBeGreaterThan(held.fence);
    expect(await stateOf(wallet)).toBe('free');
  });

  it('releases if the work fails, and fails with its error', async () => {
    const wallet = randomUUID();
    const { result } = start(definition, wallet, () => {
      throw failure('CardDeclined', 'no funds');
    });
    expect(await errorOf(result)).toBe('CardDeclined');
    expect(await stateOf(wallet)).toBe('free');
  });

  it('fails with the name of its reason if the wait is over', async () => {
    const wallet = randomUUID();
    await lockAt(service.call, wallet).acquire({ leaseId: newLeaseId(), leaseMs: 60_000 });
    const { result } = start(definitionOf(undefined, Duration.seconds(1)), wallet, () => 'never');
    expect(await errorOf(result)).toBe('Holdfast.WaitTimeout');
  });

  it(
    'is not delayed by an acquire whose answer was lost: the next try is another waiter',
    exactOnly('a waiter that may have been told of its grant before keeps its lease'),
    async () => {
      const wallet = randomUUID();
      let tries = 0;
      const { result } = start(definition, wallet, () => 'done', {
        Acquire: async (call: ApiCall) => {
          tries += 1;
          if (tries > 1) return invokeAndWait(call);
          await invoke({
            ...call,
            RequestBody: { ...call.RequestBody, notify: { ...call.RequestBody.notify, token: `gone-${wallet}` } },
          });
          throw failure('ApiGateway.503', 'lost');
        },
      });
      expect(await result).toMatchObject({ lock: { status: 'granted' } });
      expect(tries).toBe(2);
      expect(await stateOf(wallet)).toBe('free');
    },
  );

  it('fails if its lease was over before the work was done, even if nobody has taken the lock', async () => {
    const wallet = randomUUID();
    const { result } = start(definitionOf(undefined, undefined, Duration.seconds(1)), wallet, async () => {
      const lock = lockAt(service.call, wallet);
      const { holders } = (await lock.inspect()).body;
      await new Promise((resolve) => setTimeout(resolve, holders[0].remainingMs + 10));
      return 'done';
    });
    expect(await errorOf(result)).toBe('Holdfast.LeaseLost');
    expect(await stateOf(wallet)).toBe('free');
  });

  it('names a renewal that came too late', async () => {
    const wallet = randomUUID();
    const { result } = start(definition, wallet, async (call) => {
      const lock = lockAt(service.call, wallet);
      const { holders } = (await lock.inspect()).body;
      await lock.revoke({ fence: holders[0].fence, reason: 'stuck' });
      return invoke(call as ApiCall);
    });
    expect(await errorOf(result)).toBe('Holdfast.LeaseLost');
  });

  it.each([
    ['ApiGateway.409', '{"code":"limit-mismatch"}', 'Holdfast.LimitMismatch'],
    ['ApiGateway.409', '{"code":"lease-lost"}', 'Holdfast.LeaseLost'],
    ['ApiGateway.400', '{"code":"invalid-request"}', 'Holdfast.InvalidRequest'],
    ['ApiGateway.403', '{"message":"Forbidden"}', 'Holdfast.Forbidden'],
    ['ApiGateway.503', '', 'Holdfast.Unavailable'],
  ])('names an acquire or a renewal that is refused with %s %s: %s', async (error, cause, name) => {
    const refuse = () => {
      throw failure(error, cause);
    };
    const wallet = randomUUID();
    expect(await errorOf(start(definition, wallet, () => 'never', { Acquire: refuse }).result)).toBe(name);
    const renewal = name === 'Holdfast.LimitMismatch' ? 'Holdfast.LeaseLost' : name;
    expect(await errorOf(start(definition, wallet, refuse).result)).toBe(renewal);
    expect(await stateOf(wallet)).toBe('free');
  });

  it('fails if the lease ended before the work was done', async () => {
    const wallet = randomUUID();
    const { result } = start(definition, wallet, async () => {
      const lock = lockAt(service.call, wallet);
      const { holders } = (await lock.inspect()).body;
      return (await lock.revoke({ fence: holders[0].fence, reason: 'stuck' })).body;
    });
    expect(await errorOf(result)).toBe('Holdfast.LeaseLost');
  });
});
