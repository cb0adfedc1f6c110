import { Duration, Stack, Token } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import {
  Chain,
  Choice,
  Condition,
  Fail,
  FieldUtils,
  type IChainable,
  type INextable,
  JsonPath,
  Parallel,
  Pass,
  type State,
  StateMachineFragment,
  type TaskMetricsConfig,
  TaskStateBase,
  Timeout,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { nameRules } from '../src/contract/limits.ts';
import { lockLimits } from '../src/lock/limits.ts';
import { namespaceOf } from './access.ts';
import type { LockService } from './lock-service.ts';

/** Makes a state that renews the lease. Put it between the states of the work. */
export type RenewState = (id: string, lease?: Duration) => State & INextable & IChainable;

export interface LockedSectionProps {
  /** The service. It must use IAM and have no domain of its own. */
  readonly locks: LockService;
  readonly namespace: string;
  /** The lock's name, or a path into the input such as `JsonPath.stringAt('$.wallet')`. */
  readonly lock: string;
  /**
   * How long the lock is held without a renewal, a day at most. Nothing renews it automatically: choose a longer time
   * than the work takes, or put a renewal between its states.
   */
  readonly lease: Duration;
  /** How long to wait for the lock. Waiting costs nothing. @default a day, the longest that the service allows */
  readonly wait?: Duration;
  /**
   * What runs while the lock is held. It finds the grant in `$.lock`: send `$.lock.fence` with every write. If this is
   * a function, it gets a way to renew.
   */
  readonly work: IChainable | ((renew: RenewState) => IChainable);
}

/** Where the grant is in the input of the work. */
const grantPath = '$.lock';
/** Where the answer to the release is. */
const releasePath = '$.released';
/** Where the error of a call is, until it gets its name. */
const refusalPath = '$.refusal';
const statusErrors = (...statuses: number[]): string[] => statuses.map((status) => `ApiGateway.${status}`);
/** Answers of an HTTP API after which the same request may soon succeed. */
const temporaryErrors = statusErrors(429, 500, 502, 503, 504);
const conflict = statusErrors(409);

/** The names of our errors. Step Functions names an answer by its status only. */
const namedErrors: readonly { readonly errors: string[]; readonly name: string; readonly cause: string }[] = [
  { errors: statusErrors(400, 413, 415), name: 'InvalidRequest', cause: 'The service does not take this request.' },
  { errors: statusErrors(401, 403), name: 'Forbidden', cause: 'The role of the state machine may not do this.' },
  { errors: temporaryErrors, name: 'Unavailable', cause: 'The service gave no answer, or was too busy.' },
];
/** The first interval is one second, and it doubles: the retries last longer than an outage of two minutes. */
const retries = { errors: temporaryErrors, interval: Duration.seconds(1), maxAttempts: 7, backoffRate: 2 };
/** The service ends a wait by its own clock and reports it. This later timeout is for the case that it can't. */
const waitSlack = Duration.minutes(5);

/**
 * A section of a state machine that runs while a lock is held. Its output is the output of the work.
 *
 *     Acquire ──> Work ──> Release ──> (output, or Holdfast.LeaseLost if the lease was over before)
 *        │          └ any error ──> ReleaseAfterError ──> Fail, with the error of the work
 *        └ Holdfast.WaitTimeout and the like, as an error of the section
 *
 * Each try to acquire has its own lease, made from its task token. So no two iterations of a Map share one. A try whose
 * answer was lost does not hold the lock for long: the service finds that its task token is no longer in use. The errors
 * `States.DataLimitExceeded` and `States.Runtime` can't be caught, and a stopped execution can't release. The lease then
 * ends by itself.
 *
 *     const section = new LockedSection(this, 'Debit', { locks, namespace: 'payments', lock, lease: Duration.minutes(10), work });
 */
export class LockedSection extends StateMachineFragment {
  readonly startState: State;
  readonly endStates: INextable[];

  constructor(scope: Construct, id: string, props: LockedSectionProps) {
    super(scope, id);
    checkReachable(props.locks);
    const { lease, wait = Duration.millis(lockLimits.parkedWaitMsMax) } = props;
    const leaseMs = millis('lease', lease, lockLimits.leaseMsMin, lockLimits.leaseMsMax);
    const waitMs = millis('wait', wait, 1, lockLimits.parkedWaitMsMax);

    const acquire = new LockCall(this, 'Acquire', {
      ...props,
      action: 'acquire',
      waitsForToken: true,
      timeout: wait.plus(waitSlack),
      resultPath: grantPath,
      body: {
        leaseId: leaseOfTask,
        owner: JsonPath.stringAt('$$.Execution.Name'),
        leaseMs,
        waitMs,
        // The task waits for its token and does not read the answer. Without `always`, a free lock would be granted in
        // that answer.
        notify: { type: 'task-token', token: JsonPath.taskToken, always: true },
      },
    });
    const ofLease = { leaseId: JsonPath.stringAt(`${grantPath}.leaseId`) };
    const renew: RenewState = (renewId, newLease) => {
      const newMs = newLease && millis('lease', newLease, lockLimits.leaseMsMin, lockLimits.leaseMsMax);
      const body = { ...ofLease, ...(newMs === undefined ? {} : { leaseMs: newMs }) };
      const renewal = new LockCall(this, renewId, { ...props, action: 'renew', resultPath: JsonPath.DISCARD, body });
      nameErrors(renewal, renewId, [failAs(this, renewId, 'LeaseLost', 'The lease was over before its renewal.')]);
      return renewal.addRetry(retries);
    };
    const release = (releaseId: string) =>
      new LockCall(this, releaseId, {
        ...props,
        action: 'release',
        resultPath: releasePath,
        body: ofLease,
      }).addRetry(retries);

    const work = new Parallel(this, 'Work', { resultPath: '$.work' });
    work.branch(typeof props.work === 'function' ? props.work(renew) : props.work);
    const fail = new Fail(this, 'Failed', { errorPath: '$.error.Error', causePath: '$.error.Cause' });
    const releaseAfterError = release('ReleaseAfterError');
    // Callers must see the error of the work, even if the release fails.
    releaseAfterError.addCatch(fail, { resultPath: JsonPath.DISCARD });
    work.addCatch(releaseAfterError.next(fail), { resultPath: '$.error' });

    const output = new Pass(this, 'Output', { outputPath: '$.work[0]' });
    const late = 'The lease ended before the work was done, so another holder may have worked at the same time.';
    const lost = new Fail(this, 'LeaseLost', { error: 'Holdfast.LeaseLost', cause: late });
    const released = release('Release');
    released.addCatch(lost, { errors: conflict, resultPath: JsonPath.DISCARD });
    // If the release can't be sent, the work still counts as a success. The lease ends by itself.
    released.addCatch(output, { resultPath: JsonPath.DISCARD });
    const wasLate = Condition.isPresent(`${releasePath}.ResponseBody.expired`);
    const inTime = new Choice(this, 'InTime').when(wasLate, lost).otherwise(output);

    nameErrors(acquire, 'Acquire', [
      failAs(this, 'Acquire', 'LimitMismatch', 'The lock is in use with another limit.', '*limit-mismatch*'),
      failAs(this, 'Acquire', 'LeaseLost', 'The lease of this task is over, or belongs to another task.'),
    ]);
    Chain.start(acquire.addRetry(retries)).next(work).next(released).next(inTime);
    this.startState = acquire;
    this.endStates = [output];
  }
}

/**
 * A lease for each task token, so for each try of each iteration of each execution. A retry after a lost answer has
 * another token, and must be another waiter. The token is hashed, because it is longer than a lease id may be.
 */
const leaseOfTask = JsonPath.hash(JsonPath.taskToken, 'SHA-256');

/** One meaning of a 409: the state that fails with its name. If there is a pattern, the answer must match it. */
interface Meaning {
  readonly fail: Fail;
  readonly pattern?: string | undefined;
}

const failAs = (scope: Construct, id: string, name: string, cause: string, pattern?: string): Meaning => ({
  fail: new Fail(scope, `${id}${name}`, { error: `Holdfast.${name}`, cause }),
  pattern,
});

/**
 * Ends a call that failed with the name of our error, so that a catch by that name works. A 409 may mean several things,
 * which only its answer tells apart. Each call has states of its own, because it may be in another branch than others.
 */
function nameErrors(call: LockCall, id: string, meanings: readonly [...Meaning[], Meaning]): void {
  const scope = call.node.scope as Construct;
  const last = meanings.at(-1) as Meaning;
  const choice = meanings.slice(0, -1).reduce<Choice | undefined>((chosen, { fail, pattern = '*' }) => {
    const matches = Condition.stringMatches(`${refusalPath}.Cause`, pattern);
    return (chosen ?? new Choice(scope, `${id}Refused`)).when(matches, fail);
  }, undefined);
  call.addCatch(choice?.otherwise(last.fail) ?? last.fail, { errors: conflict, resultPath: refusalPath });
  for (const { errors, name, cause } of namedErrors) {
    call.addCatch(failAs(scope, id, name, cause).fail, { errors, resultPath: JsonPath.DISCARD });
  }
}

/** Step Functions calls an HTTP API by API Gateway's own name, and signs for IAM. */
function checkReachable(locks: LockService): void {
  const { domainName, takesTokens } = locks.httpApi;
  if (takesTokens) {
    throw new Error(
      'A LockedSection signs its calls for IAM, but this service takes tokens (jwt): Step Functions cannot send them.',
    );
  }
  if (domainName !== undefined) {
    throw new Error(
      'A LockedSection calls the endpoint of API Gateway, which is switched off if the service has its own domain (domain).',
    );
  }
}

function millis(name: string, duration: Duration, min: number, max: number): number {
  const ms = duration.toMilliseconds();
  if (ms >= min && ms <= max) return ms;
  throw new Error(`${name} must be from ${min} to ${max} ms, got ${ms}.`);
}

interface LockCallProps extends Pick<LockedSectionProps, 'locks' | 'namespace' | 'lock'> {
  readonly action: 'acquire' | 'renew' | 'release';
  readonly body: Record<string, unknown>;
  readonly resultPath: string;
  readonly waitsForToken?: boolean;
  readonly timeout?: Duration;
}

/** One request to the service, signed by the state machine's role. */
class LockCall extends TaskStateBase {
  protected readonly taskMetrics?: TaskMetricsConfig;
  protected readonly taskPolicies: PolicyStatement[];
  readonly #call: LockCallProps;

  constructor(scope: Construct, id: string, call: LockCallProps) {
    const { timeout, resultPath } = call;
    super(scope, id, { resultPath, ...(timeout === undefined ? {} : { taskTimeout: Timeout.duration(timeout) }) });
    this.#call = call;
    const { api, stage } = call.locks.httpApi;
    const resourceName = `${stage.stageName}/POST/v1/${namespaceOf(call.namespace)}/locks/?*/${call.action}`;
    this.taskPolicies = [
      new PolicyStatement({
        actions: ['execute-api:Invoke'],
        resources: [Stack.of(this).formatArn({ service: 'execute-api', resource: api.apiId, resourceName })],
      }),
    ];
  }

  protected _renderTask(): unknown {
    const { locks, action, body, waitsForToken } = this.#call;
    const { partition, region, urlSuffix } = Stack.of(this);
    const pattern = waitsForToken === true ? '.waitForTaskToken' : '';
    return {
      Resource: `arn:${partition}:states:::apigateway:invoke${pattern}`,
      Parameters: FieldUtils.renderObject({
        ApiEndpoint: `${locks.httpApi.api.apiId}.execute-api.${region}.${urlSuffix}`,
        Method: 'POST',
        Path: this.#path(action),
        Headers: { 'Content-Type': ['application/json'] },
        RequestBody: body,
        AuthType: 'IAM_ROLE',
      }),
    };
  }

  #path(action: string): string {
    const { namespace, lock } = this.#call;
    if (Token.isUnresolved(lock)) return JsonPath.format(`/v1/${namespace}/locks/{}/${action}`, lock);
    const { pattern, allowed } = nameRules.resource;
    if (!pattern.test(lock)) throw new Error(`The name of a lock must be ${allowed}; got ${lock}.`);
    return `/v1/${namespace}/locks/${encodeURIComponent(lock)}/${action}`;
  }
}
