/**
 * Direct mode: the SDK straight on DynamoDB, without HTTP in between.
 *
 * @packageDocumentation
 */
export { createDirect, type DirectOptions } from './direct.ts';
