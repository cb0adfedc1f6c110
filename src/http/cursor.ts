import { resourceName } from './schemas.ts';
import { validate } from './validation.ts';

/** Opaque to callers, so that what is inside may change. */
export const writeCursor = (name: string): string => Buffer.from(name).toString('base64url');

export const readCursor = (cursor: string): string =>
  validate(resourceName, Buffer.from(cursor, 'base64url').toString(), 'cursor');
