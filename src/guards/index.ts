/**
 * Guards check the fence in data outside Holdfast. A lock saves work. A lock whose fence is checked by the data is
 * correct. Every guard refuses a write below the floor, accepts one at or above it, and raises the floor in the same
 * step.
 *
 * @packageDocumentation
 */
export { StaleFenceError } from '../client/errors.ts';
export {
  type DynamoDBFenceOptions,
  type DynamoDBRefusal,
  type DynamoDBWrite,
  fenceDynamoDB,
  judgeDynamoDBError,
  type TombstoneOptions,
  tombstoneDynamoDB,
} from './dynamodb.ts';
export { checkFence, isStaleFence, readFloor, type Stale, throwIfStale } from './fence.ts';
export {
  evalArguments,
  type FencedCall,
  fencedCall,
  fencedSet,
  fenceScript,
  floorKey,
  type RedisArgument,
  type RedisOutcome,
  raiseRedisFloor,
  readReply,
  runFenced,
} from './redis.ts';
export {
  putFenced,
  type S3Body,
  type S3Condition,
  type S3Objects,
  type S3Outcome,
  type S3PutOptions,
  type S3Write,
  s3Objects,
} from './s3.ts';
export {
  executeFenced,
  type FencedRow,
  type FencedStatement,
  fencedUpdate,
  fencedUpsert,
  floorsTable,
  judgeFloor,
  judgeRows,
  type RunSql,
  raiseFloor,
  type SqlDialect,
  type SqlOutcome,
  type SqlStatement,
} from './sql.ts';
