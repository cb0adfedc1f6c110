/**
 * The SDK of Holdfast: locks with fences, for Node 22 and newer and for every runtime that has `fetch`. No dependencies.
 *
 * @packageDocumentation
 */
export type {
  DeadlockStep,
  FenceCheck,
  FieldError,
  GrantBody,
  Health,
  HolderDetail,
  HolderView,
  LockEvent,
  LockSummary,
  LockView,
  ManyGrantBody,
  Notify,
  RecordWritten,
  Release,
  WaiterView,
  Waiting,
} from '../contract/views.ts';
export { type Auth, bearer, type Unsigned } from './auth/auth.ts';
export { type AwsCredentials, type SigV4Options, sigv4 } from './auth/sigv4.ts';
export type { BreakerOptions } from './breaker.ts';
export type { Defaults, Patience, Tier } from './core.ts';
export { Election, type ElectionOptions, type Term } from './election.ts';
export {
  ClosedError,
  DeadlockError,
  type ErrorCode,
  HoldfastError,
  InvalidRequestError,
  isHoldfastError,
  LeaseLostError,
  LimitMismatchError,
  LockHeldError,
  type LostReason,
  OnceFailedError,
  PayloadMismatchError,
  QueueFullError,
  SessionLostError,
  StaleFenceError,
  ThrottledError,
  TooManyRetriesError,
  UnavailableError,
  VersionMismatchError,
  WaitTimeoutError,
} from './errors.ts';
export { type DetachedLease, HeldLock, HeldLocks } from './held-lock.ts';
export {
  type ClientOptions,
  Holdfast,
  type HoldfastOptions,
  type Parked,
  type ParkOptions,
  type TransportOptions,
} from './holdfast.ts';
export type { WebSocketClass, WebSocketLike } from './http-transport.ts';
export type { AcquireAllOptions, AcquireOptions, LeaseOptions, LockEntry, TryOptions } from './lock-options.ts';
export type { LockScope, Tried } from './lock-scope.ts';
export type { NamedAcquireOptions, NamedLock, NamedTryOptions } from './named-lock.ts';
export type { ClientEvent } from './observer.ts';
export type { OnceOptions, OnceResult } from './once.ts';
export type {
  Expected,
  PutOptions,
  RecordHandle,
  RecordView,
  UpdateOptions,
  WriteOptions,
} from './record.ts';
export type { Runtime } from './runtime.ts';
export type { Session, SessionOptions } from './session.ts';
export type { HoldOutcome, TracedHold, TracedLocks, TracedWait, Tracing } from './tracing.ts';
export type { Answer, Call, Transport, WatchHandlers } from './transport.ts';
export type { WatchEvent, WatchGrant, WatchTarget } from './watch.ts';
