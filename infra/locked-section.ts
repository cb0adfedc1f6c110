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

/** Makes a state that renews the lease, to be put between the states of the work. */
export type RenewState = (id: string, lease?: Duration) => State & INextable & IChainable;

export interface LockedSectionProps {
  /** The service, with IAM and without a domain of its own. */
  readonly locks: LockService;
  readonly namespace: string;
  /** The lock's name, or a path into the input such as `JsonPath.stringAt('$.wallet')`. */
  readonly lock: string;
  /**
   * How long the lock is held without being renewed, a day at most. Nothing renews it by itself: name more than the work takes, or put
   * a renewal between its states.
   */
  readonly lease: Duration;
  /** How long to wait for the lock. Waiting costs nothing. @default a day, the most that the service allows */
  readonly wait?: Duration;
  /**
   * What runs while the lock is held. It finds the grant in `$.lock`: send `$.lock.fence` along with every write. A function gets a way
   * to renew.
   */
  readonly work: IChainable | ((renew: RenewState) => IChainable);
}

/** Where the grant lies in the input of the work. */
const grantPath = '$.lock';
/** What an HTTP API answers when the same request may pass in a moment. */
const passing = ['429', '500', '502', '503', '504'].map((status) => `ApiGateway.${status}`);
const lostLease = 'ApiGateway.409';
/** From one second on and doubled: a store that is away for two minutes is outlasted. */
const retries = { errors: passing, interval: Duration.seconds(1), maxAttempts: 7, backoffRate: 2 };
/** The service ends a wait by its own clock and says so. This is for the case that it can't, so it comes later. */
const waitSlack = Duration.minutes(5);

/**
 * A section of a state machine that runs while a lock is held. Its output is that of the work.
 *
 *     Acquire ──> Work ──> Release ──> (output)
 *        │          └ any error ──> ReleaseAfterError ──> Fail, with the error of the work
 *        └ Holdfast.WaitTimeout and the like, as an error of the section
 *
 * Each try to acquire has a lease of its own, made of the execution's name: a try whose answer was lost holds nothing for long, since
 * the service finds that nobody waits for its task token any more. The errors `States.DataLimitExceeded` and `States.Runtime` can't be
 * caught, nor can a stopped execution release: then the lease runs out.
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
        // Without `always` a lock that is free would be granted by the answer, which nobody reads: the task waits for its token.
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
    // The error of the work is what callers must see, whatever becomes of the release.
    releaseAfterError.addCatch(fail, { resultPath: JsonPath.DISCARD });
    work.addCatch(releaseAfterError.next(fail), { resultPath: '$.error' });

    const output = new Pass(this, 'Output', { outputPath: '$.work[0]' });
    const lost = new Fail(this, 'LeaseLost', {
      error: 'Holdfast.LeaseLost',
      cause: 'The lease had ended before the work was done, so it may have run beside another.',
    });
    const released = release('Release');
    released.addCatch(lost, { errors: [lostLease], resultPath: JsonPath.DISCARD });
    // A release that can't be sent is no failure of the work: the lease runs out by itself.
    released.addCatch(output, { resultPath: JsonPath.DISCARD });

    Chain.start(acquire.addRetry(retries)).next(work).next(released).next(output);
    this.startState = acquire;
    this.endStates = [output];
  }
}

/**
 * A lease for this try of this state in this execution: a repeat after a lost answer has another task token, so it must be another
 * waiter. Hashed, since a name may have characters that a lease id has not.
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

/** Step Functions calls an HTTP API by its own name, and signs for IAM. */
function checkReachable(locks: LockService): void {
  const { domainName, takesTokens } = locks.httpApi;
  if (takesTokens) {
    throw new Error(
      'A LockedSection signs its calls for IAM, but this service takes tokens (jwt): Step Functions can not send them.',
    );
  }
  if (domainName !== undefined) {
    throw new Error(
      'A LockedSection calls API Gateway by its own endpoint, which is switched off for a service with a domain of its own (domain).',
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
