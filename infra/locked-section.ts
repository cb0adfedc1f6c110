import { Duration, Stack, Token } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import {
  Chain,
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
/** Answers of an HTTP API after which the same request may soon succeed. */
const temporaryErrors = ['429', '500', '502', '503', '504'].map((status) => `ApiGateway.${status}`);
const lostLease = 'ApiGateway.409';
/** The first interval is one second, and it doubles: the retries last longer than an outage of two minutes. */
const retries = { errors: temporaryErrors, interval: Duration.seconds(1), maxAttempts: 7, backoffRate: 2 };
/** The service ends a wait by its own clock and reports it. This later timeout is for the case that it can't. */
const waitSlack = Duration.minutes(5);

/**
 * A section of a state machine that runs while a lock is held. Its output is the output of the work.
 *
 *     Acquire ──> Work ──> Release ──> (output)
 *        │          └ any error ──> ReleaseAfterError ──> Fail, with the error of the work
 *        └ Holdfast.WaitTimeout and the like, as an error of the section
 *
 * Each try to acquire has its own lease, made from the execution's name. A try whose answer was lost does not hold the
 * lock for long: the service finds that its task token is no longer in use. The errors `States.DataLimitExceeded` and
 * `States.Runtime` can't be caught, and a stopped execution can't release. The lease then ends by itself.
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
        leaseId: leaseOfTry(),
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
      return new LockCall(this, renewId, { ...props, action: 'renew', resultPath: JsonPath.DISCARD, body }).addRetry(
        retries,
      );
    };
    const release = (releaseId: string) =>
      new LockCall(this, releaseId, {
        ...props,
        action: 'release',
        resultPath: JsonPath.DISCARD,
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
    const lost = new Fail(this, 'LeaseLost', {
      error: 'Holdfast.LeaseLost',
      cause: 'The lease ended before the work was done, so another holder may have worked at the same time.',
    });
    const released = release('Release');
    released.addCatch(lost, { errors: [lostLease], resultPath: JsonPath.DISCARD });
    // If the release can't be sent, the work still counts as a success. The lease ends by itself.
    released.addCatch(output, { resultPath: JsonPath.DISCARD });

    Chain.start(acquire.addRetry(retries)).next(work).next(released).next(output);
    this.startState = acquire;
    this.endStates = [output];
  }
}

/**
 * A lease for this try of this state in this execution. A retry after a lost answer has another task token, so it must
 * be another waiter. The id is hashed, because a name may have characters that a lease id may not have.
 */
const leaseOfTry = (): string =>
  JsonPath.hash(
    JsonPath.format(
      '{}/{}/{}/{}',
      JsonPath.stringAt('$$.Execution.Name'),
      JsonPath.stringAt('$$.State.Name'),
      JsonPath.stringAt('$$.State.EnteredTime'),
      JsonPath.stringAt('$$.State.RetryCount'),
    ),
    'SHA-256',
  );

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
