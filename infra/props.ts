import type { Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { ICertificate } from 'aws-cdk-lib/aws-certificatemanager';
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IHostedZone } from 'aws-cdk-lib/aws-route53';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { IStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Access } from '../src/contract/operations.ts';
import type { FunctionName } from './function-code.ts';

/** Callers with tokens instead of AWS credentials. */
export interface JwtProps {
  /**
   * Such as `https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_abc`. It must serve
   * `/.well-known/openid-configuration`.
   */
  readonly issuer: string;
  /** A token is accepted if its `aud` or its `client_id` is one of these. */
  readonly audience: readonly string[];
  /**
   * For each right, the scopes of which a token must have one. Give all three rights, or none. With none, a valid token
   * may do everything.
   */
  readonly scopes?: Readonly<Record<Exclude<Access, 'public'>, readonly string[]>>;
  /**
   * The claim that lists the namespaces of a token, such as `locks:namespaces`. Its value is a list, or one text with
   * spaces or commas between the names. `*` means every namespace. A token without the claim may use none. If this
   * property is missing, a token may use every namespace.
   */
  readonly namespacesClaim?: string;
}

/** Both limits count per route. API Gateway itself answers a request over them with 429. */
export interface ThrottleProps {
  readonly ratePerSecond?: number;
  readonly burst?: number;
}

export interface DomainProps {
  /** Such as `locks.example.com`. */
  readonly name: string;
  /** In the Region of the stack. */
  readonly certificate: ICertificate;
  /** Where to put the alias record. If missing, you set up DNS yourself. */
  readonly hostedZone?: IHostedZone;
}

export interface LockServiceProps {
  /**
   * Creates only the table, for processes that use the server library on it directly. Then parked waiters are not
   * notified, and leases do not end promptly if nobody polls.
   * @default false
   */
  readonly tableOnly?: boolean;

  /**
   * Tokens instead of IAM. A WebSocket is then opened with a ticket alone, because WebSocket APIs have no JWT
   * authorizer. @default IAM (SigV4) on every route
   */
  readonly jwt?: JwtProps;

  /**
   * Leaves health and the OpenAPI document without an authorizer, for probes that can't sign. @default false: every
   * route needs one
   */
  readonly openPublicRoutes?: boolean;

  /**
   * How long the item of an idle lock is kept, two days at least. Its fences go on rising afterwards.
   * @default 30 days
   */
  readonly retention?: Duration;

  /** The longest lease that a caller may ask for. @default a day, the longest that the contract allows */
  readonly leaseMax?: Duration;

  /** The longest wait of a polling caller. @default 15 minutes, the longest that the contract allows */
  readonly waitMax?: Duration;

  /** How long one request is kept open for a waiter. @default 20 seconds, because API Gateway stops waiting after 30 */
  readonly poll?: Duration;

  /**
   * @default 2,000 requests a second and bursts of 1,000. An account's usual quota is 10,000 and 5,000 for all its
   * APIs.
   */
  readonly throttle?: ThrottleProps;

  /** Your own domain name instead of API Gateway's, which is then switched off. */
  readonly domain?: DomainProps;

  /**
   * What happens to the table if the stack is deleted. DESTROY also removes its deletion protection. @default RETAIN
   */
  readonly removalPolicy?: RemovalPolicy;

  /** Your own key for the table. The stack must name its Region. @default DynamoDB's own key, which costs nothing */
  readonly encryptionKey?: IKey;

  /**
   * Publishes every event of every lock. EventBridge bills each event, so this is done only on request: by this
   * property, by `eventBus`, or by using `locks.eventBus`. A parked waiter that asked for an event gets it in any case.
   * @default false
   */
  readonly events?: boolean;

  /** Where events are published. Setting it also turns events on. @default a bus of its own */
  readonly eventBus?: IEventBus;

  /** Keeps the history of each lock for seven days. It costs a write for each hold. @default true */
  readonly history?: boolean;

  /**
   * Lock namespaces that get their own metrics, beside those of the whole service. Each costs up to nine metrics a
   * month. They must be listed here, because callers can invent namespaces.
   * @default none
   */
  readonly metricNamespaces?: readonly string[];

  /**
   * State machines whose task tokens may be used when a parked waiter is granted the lock.
   * @default all in this account and Region. A task token can't be guessed, so a caller that sends one was given it.
   */
  readonly stateMachines?: readonly IStateMachine[];

  /**
   * Lambda durable functions whose callbacks may be completed when a parked waiter is granted the lock.
   * `grantCallbacks` adds others.
   * @default none: callbacks of other functions can't be completed, and the grant goes to the next waiter
   */
  readonly durableFunctions?: readonly IFunction[];

  /** Where alarms are sent. @default nowhere: an alarm only changes its state */
  readonly alarmTopic?: ITopic;

  /** Alarms and the dashboard. @default true */
  readonly monitoring?: boolean;

  /** @default three months */
  readonly logRetention?: RetentionDays;

  /**
   * Memory of the functions that answer requests. It also sets their share of a processor.
   * @default 512 MB. Less makes TLS and cold starts slower. More is paid for during every long poll.
   */
  readonly memorySizeMb?: number;

  /**
   * Concurrency reserved for a function, which is also its maximum. `{ acquire: 500, http: 50 }` limits the waiters and
   * always leaves enough for renewals and releases: see "What to reserve" in docs/operations.md.
   * @default none: a reservation is taken from the rest of the account, and fails if the account has too little. The
   * reaper is limited by its queue's poller instead.
   */
  readonly reservedConcurrency?: Readonly<Partial<Record<FunctionName, number>>>;

  /** The folder of the bundled functions. @default those that ship with this package */
  readonly functionsFolder?: string;
}
