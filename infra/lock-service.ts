import { ArnFormat, Duration, RemovalPolicy, Stack, Validations } from 'aws-cdk-lib';
import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { lockLimits, requestLimits } from '../src/contract/limits.ts';
import { namespaceOf, patternsOf, type Right } from './access.ts';
import { allowCallbacks } from './callbacks.ts';
import { Expiry } from './expiry.ts';
import { type FunctionName, functionCode } from './function-code.ts';
import { LockHttpApi } from './http-api.ts';
import { Monitoring } from './monitoring.ts';
import { Notifications } from './notifications.ts';
import type { LockServiceProps } from './props.ts';
import { ServiceFunction } from './service-function.ts';
import { createLockTable } from './table.ts';
import { allowTableAccess, directAccess, tableAccess } from './table-access.ts';
import { WatchApi } from './watch-api.ts';

export { LockedSection, type LockedSectionProps, type RenewState } from './locked-section.ts';
export type { DomainProps, JwtProps, LockServiceProps, ThrottleProps } from './props.ts';

/** What a grant reaches. */
export interface GrantScope {
  /** One namespace, or `*` for every one. */
  readonly namespace: string;
}

/** The parts that are there unless only the table was asked for. */
interface Parts {
  readonly httpApi: LockHttpApi;
  readonly acquire: ServiceFunction;
  readonly http: ServiceFunction;
  readonly watchApi: WatchApi;
  readonly websocket: ServiceFunction;
  readonly notifications: Notifications;
  readonly expiry: Expiry;
  readonly monitoring: Monitoring | undefined;
}

/** Two days: a lease and a wait last one at most, so TTL never reaches an item that is held or awaited. */
const retentionMsMin = 2 * 86_400_000;

/** An account's usual quota for all its APIs in a Region is 10,000 a second and bursts of 5,000: a fifth leaves room for the others. */
const throttleDefault = { ratePerSecond: 2_000, burst: 1_000 };

/**
 * A lock service in your own stack.
 *
 *     const locks = new LockService(this, 'Locks');
 *     locks.grantUse(worker, { namespace: 'orders' });
 *     worker.addEnvironment('HOLDFAST_URL', locks.url);
 */
export class LockService extends Construct {
  readonly table: TableV2;
  readonly #props: LockServiceProps;
  readonly #parts: Parts | undefined;

  constructor(scope: Construct, id: string, props: LockServiceProps = {}) {
    super(scope, id);
    this.#props = props;
    this.table = createLockTable(this, {
      removalPolicy: props.removalPolicy ?? RemovalPolicy.RETAIN,
      encryptionKey: props.encryptionKey,
    });
    this.#parts = props.tableOnly === true ? undefined : this.#createParts();
  }

  /** Where the SDK is pointed at, without a slash at the end. */
  get url(): string {
    return this.httpApi.url;
  }

  /** Where callers connect with a ticket. The SDK learns it with each ticket. */
  get watchUrl(): string {
    return this.watchApi.stage.url;
  }

  get httpApi(): LockHttpApi {
    return this.#part('httpApi');
  }

  /** Answers the two acquire routes, where callers are kept waiting. */
  get acquire(): ServiceFunction {
    return this.#part('acquire');
  }

  /** Answers every other route: renewals, releases, revocations and keepalives never queue behind waiters. */
  get http(): ServiceFunction {
    return this.#part('http');
  }

  get watchApi(): WatchApi {
    return this.#part('watchApi');
  }

  get websocket(): ServiceFunction {
    return this.#part('websocket');
  }

  get notifications(): Notifications {
    return this.#part('notifications');
  }

  /** Where events are published. Asking for it makes the service publish them: EventBridge bills each. */
  get eventBus(): IEventBus {
    this.notifications.publishEvents();
    return this.notifications.eventBus;
  }

  get expiry(): Expiry {
    return this.#part('expiry');
  }

  /** Absent where `monitoring` is false. */
  get monitoring(): Monitoring | undefined {
    return this.#part('monitoring');
  }

  /** To look at locks, sessions and records, and to watch. */
  grantInspect(grantee: IGrantable, scope: GrantScope): Grant {
    return this.#grant('inspect', grantee, scope);
  }

  /** To lock, to keep sessions and to write records, and to look. */
  grantUse(grantee: IGrantable, scope: GrantScope): Grant {
    return this.#grant('use', grantee, scope);
  }

  /** To list everything and to end what others hold, and to look; not to lock. */
  grantAdmin(grantee: IGrantable, scope: GrantScope): Grant {
    return this.#grant('admin', grantee, scope);
  }

  /** To use the table without the HTTP API, through the server library: its items and indexes, by their leading key. */
  grantDirect(grantee: IGrantable, { namespace }: GrantScope): void {
    allowTableAccess(this.table, grantee, directAccess(namespaceOf(namespace)));
  }

  /** Lets parked waiters of this durable function be notified: the service may complete its callbacks. */
  grantCallbacks(durableFunction: IFunction): void {
    allowCallbacks(this.notifications.notifier, durableFunction);
  }

  #grant(right: Right, grantee: IGrantable, { namespace }: GrantScope): Grant {
    if (this.#props.jwt !== undefined) {
      throw new Error(`This service takes tokens, so IAM can't grant ${right}: give the token a scope instead.`);
    }
    const { api, stage } = this.httpApi;
    return Grant.addToPrincipal({
      grantee,
      actions: ['execute-api:Invoke'],
      resourceArns: [
        // A connection also needs a ticket, which is of one namespace.
        this.watchApi.connectArn,
        ...patternsOf(right, namespace).map(({ method, path }) =>
          // Not by `arnForExecuteApi`, which would take the wildcards of a name for the whole path.
          Stack.of(this).formatArn({
            service: 'execute-api',
            resource: api.apiId,
            resourceName: `${stage.stageName}/${method}${path}`,
            arnFormat: ArnFormat.SLASH_RESOURCE_NAME,
          }),
        ),
      ],
    });
  }

  #part<Name extends keyof Parts>(name: Name): Parts[Name] {
    if (this.#parts === undefined) throw new Error(`There is no ${name}: this service is a table only.`);
    return this.#parts[name];
  }

  #createParts(): Parts {
    const props = this.#props;
    const throttle = { ...throttleDefault, ...props.throttle };
    const logRetention = props.logRetention ?? RetentionDays.THREE_MONTHS;

    const notifications = new Notifications(this, 'Notifications', {
      table: this.table,
      eventBus: props.eventBus,
      notifier: this.#functionProps('notifier'),
      publisher: this.#functionProps('publisher'),
    });
    if (props.events === true || props.eventBus !== undefined) notifications.publishEvents();
    const expiry = new Expiry(this, 'Expiry', { function: this.#functionProps('reaper') });
    const websocket = new ServiceFunction(this, 'Websocket', {
      ...this.#functionProps('websocket'),
      description: 'Opens and closes WebSocket connections',
      // A connection that ends may leave ten thousand waits behind, each of them a write.
      timeout: Duration.seconds(28),
    });
    const watchApi = new WatchApi(this, 'Watch', {
      handler: websocket.function,
      iam: props.jwt === undefined,
      throttle,
    });
    // API Gateway gives up after 30 seconds; ending first leaves an error of ours in the log instead of silence.
    const timeout = Duration.seconds(29);
    const acquire = new ServiceFunction(this, 'Acquire', {
      ...this.#functionProps('acquire'),
      description: 'Answers the acquire routes, where callers wait',
      timeout,
    });
    const http = new ServiceFunction(this, 'Http', {
      ...this.#functionProps('http'),
      description: 'Answers every HTTP route but acquire',
      timeout,
    });
    const httpApi = new LockHttpApi(this, 'HttpApi', {
      acquire: acquire.function,
      handler: http.function,
      jwt: props.jwt,
      openPublicRoutes: props.openPublicRoutes ?? false,
      throttle,
      domain: props.domain,
      logRetention,
    });

    const { notifier, publisher } = notifications;
    const { reaper } = expiry;
    for (const [name, { role }] of Object.entries({ acquire, http, notifier, publisher, reaper, websocket })) {
      allowTableAccess(this.table, role, tableAccess[name as FunctionName]);
    }
    expiry.armFrom(notifier);
    expiry.armFrom(reaper);
    watchApi.tellFrom(notifier);
    watchApi.tellFrom(publisher);
    // Whoever hands a lock over delivers it at once.
    watchApi.tellFrom(reaper);
    for (const answering of [acquire, http]) {
      watchApi.tellFrom(answering);
      answering.function.addEnvironment('HOLDFAST_WEBSOCKET_URL', watchApi.stage.url);
    }
    this.#allowTaskTokens(notifier);
    for (const durable of props.durableFunctions ?? []) allowCallbacks(notifier, durable);

    const parts = { httpApi, acquire, http, watchApi, websocket, notifications, expiry };
    const monitoring =
      props.monitoring === false
        ? undefined
        : new Monitoring(this, 'Monitoring', { ...parts, table: this.table, topic: props.alarmTopic });
    return { ...parts, monitoring };
  }

  #functionProps(name: FunctionName) {
    const props = this.#props;
    const { leaseMsMin, leaseMsMax, waitMsMax } = lockLimits;
    const answers = name === 'http' || name === 'acquire';
    const metricNamespaces = (props.metricNamespaces ?? []).map(namespaceOf);
    return {
      code: functionCode(name, props.functionsFolder),
      memorySizeMb: answers ? (props.memorySizeMb ?? 512) : 512,
      logRetention: props.logRetention ?? RetentionDays.THREE_MONTHS,
      reservedConcurrency: props.reservedConcurrency?.[name],
      environment: {
        HOLDFAST_TABLE: this.table.tableName,
        ...setting('HOLDFAST_RETENTION_MS', 'retention', props.retention, retentionMsMin, Infinity),
        ...(props.history === false ? { HOLDFAST_HISTORY: 'off' } : {}),
        ...(metricNamespaces.length > 0 ? { HOLDFAST_METRIC_NAMESPACES: metricNamespaces.join(',') } : {}),
        ...(answers
          ? {
              ...(props.jwt?.namespacesClaim === undefined
                ? {}
                : { HOLDFAST_NAMESPACES_CLAIM: props.jwt.namespacesClaim }),
              ...setting('HOLDFAST_POLL_MS', 'poll', props.poll, 0, requestLimits.pollMsMax),
              ...setting('HOLDFAST_LEASE_MS_MAX', 'leaseMax', props.leaseMax, leaseMsMin, leaseMsMax),
              ...setting('HOLDFAST_WAIT_MS_MAX', 'waitMax', props.waitMax, 0, waitMsMax),
            }
          : {}),
      },
    };
  }

  #allowTaskTokens(notifier: ServiceFunction): void {
    const stack = Stack.of(this);
    const named = this.#props.stateMachines?.map(({ stateMachineArn }) => stateMachineArn);
    if (named?.length === 0) return;
    const every = stack.formatArn({
      service: 'states',
      resource: 'stateMachine',
      resourceName: '*',
      arnFormat: ArnFormat.COLON_RESOURCE_NAME,
    });
    notifier.allow(['states:SendTaskSuccess', 'states:SendTaskFailure'], named ?? [every]);
    if (named !== undefined) return;
    Validations.of(notifier.role).acknowledge({
      id: 'AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:stateMachine:*]',
      reason:
        'Which state machines will park is not known here; a task token can not be guessed. `stateMachines` names them.',
    });
  }
}

/**
 * A duration as functions read it; absent where the service's own default is to hold. Out of range is an error here, when the
 * stack is written, and not when a caller waits.
 */
function setting(
  variable: string,
  prop: string,
  given: Duration | undefined,
  min: number,
  max: number,
): Record<string, string> {
  if (given === undefined) return {};
  const ms = given.toMilliseconds();
  if (ms < min || ms > max) throw new Error(`${prop} must be from ${min} to ${max} ms, got ${ms}.`);
  return { [variable]: String(ms) };
}
