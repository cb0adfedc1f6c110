import type * as z from 'zod';
import { validate } from './request.ts';

/** Encoded, so that callers do not depend on its content and the content can change. */
export const writeCursor = (place: string): string => Buffer.from(place).toString('base64url');

export const readCursor = (cursor: string, place: z.ZodType<string>): string =>
  validate(place, Buffer.from(cursor, 'base64url').toString(), 'cursor');
