/**
 * Locks around Lambda handlers: a middy middleware, a wrapper for plain handlers, and one for the messages of an SQS
 * batch.
 *
 * @packageDocumentation
 */
export type { InvocationLockOptions, LockedContext } from './invocation.ts';
export { type HandlerLockOptions, holdfastLock, withLockHandler } from './lock.ts';
export { type HandlerOnceOptions, holdfastOnce, withOnceHandler } from './once.ts';
export { type OnceRecordsOptions, onceRecords } from './once-records.ts';
export { type RecordLockOptions, withRecordLocks } from './records.ts';
export type { RefusalOptions } from './refusal.ts';
