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
  /** Such as `https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_abc`; it must serve `/.well-known/openid-configuration`. */
  readonly issuer: string;
  /** A token is taken when its `aud`, or `client_id`, is one of these. */
  readonly audience: readonly string[];
  /** Scopes of which a token must have one, by what a route is for. Give all three, or none: then a valid token may do everything. */
  readonly scopes?: Readonly<Record<Exclude<Access, 'public'>, readonly string[]>>;
  /**
   * The claim that lists the namespaces which a token may touch, such as `locks:namespaces`: a list, or one text with spaces or
   * commas between them; `*` is every namespace. A token without it then touches none. Absent: a token may touch every namespace.
   */
  readonly namespacesClaim?: string;
}

/** Both count per route, and a request over them is answered 429 by API Gateway itself. */
export interface ThrottleProps {
  readonly ratePerSecond?: number;
  readonly burst?: number;
}

export interface DomainProps {
  /** Such as `locks.example.com`. */
  readonly name: string;
  /** In the Region of the stack. */
  readonly certificate: ICertificate;
  /** Where to put the alias record. Absent: DNS is left to you. */
  readonly hostedZone?: IHostedZone;
}

export interface LockServiceProps {
  /**
   * Only the table: for processes that use the server library on it directly. Then parked waiters are not notified, and
   * expiry is not prompt.
   * @default false
   */
  readonly tableOnly?: boolean;

  /** Tokens instead of IAM. Watching stays with IAM, since WebSocket APIs know no JWT. @default IAM (SigV4) on every route */
  readonly jwt?: JwtProps;

  /** Leaves health and the OpenAPI document without an authorizer, for probes that can't sign. @default false: nothing is open */
  readonly openPublicRoutes?: boolean;

  /**
   * How long an idle lock is kept before it is collected, two days at least. Its fences go on rising afterwards.
   * @default 30 days
   */
  readonly retention?: Duration;

  /** The longest lease that a caller may ask for. @default a day, the most that the contract allows */
  readonly leaseMax?: Duration;

  /** The longest wait of a polling caller. @default 15 minutes, the most that the contract allows */
  readonly waitMax?: Duration;

  /** How long one request is kept open for a waiter. @default 20 seconds, under the 30 after which API Gateway gives up */
  readonly poll?: Duration;

  /** @default 2,000 requests a second and bursts of 1,000, of an account's usual 10,000 and 5,000 for all its APIs together */
  readonly throttle?: ThrottleProps;

  /** A name of your own instead of API Gateway's, which is then switched off. */
  readonly domain?: DomainProps;

  /** What becomes of the table with the stack. DESTROY also lifts its deletion protection. @default RETAIN */
  readonly removalPolicy?: RemovalPolicy;

  /** A key of yours for the table, in a stack that names its Region. @default DynamoDB's own, which costs nothing */
  readonly encryptionKey?: IKey;

  /**
   * Publishes every event of every lock. EventBridge bills each, so this is done only if it is asked for: by this, by `eventBus`, or by
   * using `locks.eventBus`. A parked waiter that asked for an event gets it in any case.
   * @default false
   */
  readonly events?: boolean;

  /** Where events are published. Naming one asks for them. @default a bus of its own */
  readonly eventBus?: IEventBus;

  /** Keeps for seven days what happened to each lock. It costs a write for each hold. @default true */
  readonly history?: boolean;

  /**
   * Lock namespaces that get metrics of their own, beside those of the whole service. Each costs up to nine metrics a month, and a
   * caller may invent namespaces, so they are named.
   * @default none
   */
  readonly metricNamespaces?: readonly string[];

  /**
   * State machines whose task tokens may be used when a parked waiter is granted the lock.
   * @default every one in this account and Region: a task token can't be guessed, so a caller that sends one was given it
   */
  readonly stateMachines?: readonly IStateMachine[];

  /**
   * Lambda durable functions whose callbacks may be completed when a parked waiter is granted the lock. `grantCallbacks` adds others.
   * @default none: the callback of a function that is not named can't be completed, and its waiter's grant goes to the next
   */
  readonly durableFunctions?: readonly IFunction[];

  /** Where alarms are sent. @default nowhere: an alarm only changes its state */
  readonly alarmTopic?: ITopic;

  /** Alarms and the dashboard. @default true */
  readonly monitoring?: boolean;

  /** @default three months */
  readonly logRetention?: RetentionDays;

  /**
   * Memory of the functions that answer requests, which sets their share of a processor too.
   * @default 512 MB: less slows TLS and cold starts; more is paid for during every long poll
   */
  readonly memorySizeMb?: number;

  /**
   * Concurrency set apart for a function, which is also its maximum. `{ acquire: 500, http: 50 }` bounds the waiters and always
   * leaves room for renewals and releases: see "What to reserve" in docs/operations.md.
   * @default none: a reservation takes from the rest of the account, and fails where the account has too little. The reaper is
   * bounded by its queue's poller instead.
   */
  readonly reservedConcurrency?: Readonly<Partial<Record<FunctionName, number>>>;

  /** Where the bundled functions are. @default those that ship with this package */
  readonly functionsFolder?: string;
}
