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
import { checkProps } from './check-props.ts';
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
  /** One namespace, or `*` for all. */
  readonly namespace: string;
}

/** All parts except the table. They do not exist if `tableOnly` is set. */
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

/** Two days: a lease and a wait last one day at most, so TTL never deletes an item that is held or awaited. */
const retentionMsMin = 2 * 86_400_000;

/**
 * An account's usual quota for all its APIs in a Region is 10,000 requests a second and bursts of 5,000. A fifth leaves
 * enough for the other APIs.
 */
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
    checkProps(props);
    this.#props = props;
    this.table = createLockTable(this, {
      removalPolicy: props.removalPolicy ?? RemovalPolicy.RETAIN,
      encryptionKey: props.encryptionKey,
    });
    this.#parts = props.tableOnly === true ? undefined : this.#createParts();
  }

  /** The URL for the SDK, without a slash at the end. */
  get url(): string {
    return this.httpApi.url;
  }

  /** Where callers connect with a ticket. The SDK gets this URL with each ticket. */
  get watchUrl(): string {
    return this.watchApi.stage.url;
  }

  get httpApi(): LockHttpApi {
    return this.#part('httpApi');
  }

  /** Answers the two acquire routes, on which callers wait. */
  get acquire(): ServiceFunction {
    return this.#part('acquire');
  }

  /** Answers every other route, so that renewals, releases, revocations and keepalives never wait behind waiters. */
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

  /** Where events are published. Reading this property makes the service publish them. EventBridge bills each event. */
  get eventBus(): IEventBus {
    this.notifications.publishEvents();
    return this.notifications.eventBus;
  }

  get expiry(): Expiry {
    return this.#part('expiry');
  }

  /** Undefined if `monitoring` is false. */
  get monitoring(): Monitoring | undefined {
    return this.#part('monitoring');
  }

  /** Allows looking at locks, sessions and records, and watching. */
  grantInspect(grantee: IGrantable, scope: GrantScope): Grant {
    return this.#grant('inspect', grantee, scope);
  }

  /** Allows locking, keeping sessions and writing records, and everything of `grantInspect`. */
  grantUse(grantee: IGrantable, scope: GrantScope): Grant {
    return this.#grant('use', grantee, scope);
  }

  /**
   * Allows listing everything and ending other holders' leases, and everything of `grantInspect`. It does not allow
   * locking.
   */
  grantAdmin(grantee: IGrantable, scope: GrantScope): Grant {
    return this.#grant('admin', grantee, scope);
  }

  /**
   * Allows using the table without the HTTP API, through the server library: its items and indexes, by their leading
   * key.
   */
  grantDirect(grantee: IGrantable, scope: GrantScope): void {
    allowTableAccess(this.table, grantee, directAccess(namespaceIn(scope, 'grantDirect')));
  }

  /** Allows the service to complete the callbacks of this durable function, so that its parked waiters are notified. */
  grantCallbacks(durableFunction: IFunction): void {
    allowCallbacks(this.notifications.notifier, durableFunction);
  }

  #grant(right: Right, grantee: IGrantable, scope: GrantScope): Grant {
    const namespace = namespaceIn(scope, `grant${right.charAt(0).toUpperCase()}${right.slice(1)}`);
    if (this.#props.jwt !== undefined) {
      throw new Error(`This service takes tokens, so IAM can't grant ${right}: give the token a scope instead.`);
    }
    const { api, stage } = this.httpApi;
    return Grant.addToPrincipal({
      grantee,
      actions: ['execute-api:Invoke'],
      resourceArns: [
        // A connection also needs a ticket, which is for one namespace.
        this.watchApi.connectArn,
        ...patternsOf(right, namespace).map(({ method, path }) =>
          // `arnForExecuteApi` would let the wildcards of a name match the whole path.
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
      // A connection that ends may have ten thousand waits. Each of them is a write.
      timeout: Duration.seconds(28),
    });
    const watchApi = new WatchApi(this, 'Watch', {
      handler: websocket.function,
      iam: props.jwt === undefined,
      throttle,
    });
    // API Gateway stops waiting after 30 seconds. The function ends earlier, so that its own error is in the log.
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
    watchApi.allowSending(notifier);
    watchApi.allowSending(publisher);
    // A function that grants a lock to a waiter also sends the delivery at once.
    watchApi.allowSending(reaper);
    for (const answering of [acquire, http]) {
      watchApi.allowSending(answering);
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
        'The state machines that will park are not known here. A task token cannot be guessed. `stateMachines` can name them.',
    });
  }
}

/** Plain JavaScript may leave the scope out. A grant without a namespace must not become one for all. */
function namespaceIn(scope: GrantScope | undefined, method: string): string {
  if (typeof scope?.namespace === 'string') return namespaceOf(scope.namespace);
  throw new Error(
    `${method} needs a namespace, as in ${method}(who, { namespace: 'orders' }); '*' means every namespace.`,
  );
}

/**
 * The value of a duration for the functions. Missing if the service's own default applies. A value out of range is an
 * error now, when the stack is synthesized, and not later, when a caller waits.
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
  const range = max === Infinity ? `at least ${min}` : `from ${min} to ${max}`;
  if (ms < min || ms > max) throw new Error(`${prop} must be ${range} ms, got ${ms}.`);
  return { [variable]: String(ms) };
}
