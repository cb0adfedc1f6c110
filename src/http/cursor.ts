import type * as z from 'zod';
import { validate } from './request.ts';

/** Opaque to callers, so that what is inside may change. */
export const writeCursor = (place: string): string => Buffer.from(place).toString('base64url');

export const readCursor = (cursor: string, place: z.ZodType<string>): string =>
  validate(place, Buffer.from(cursor, 'base64url').toString(), 'cursor');
