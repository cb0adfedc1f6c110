import { createHash } from 'node:crypto';

/** The part of a session that others see. It tells two sessions apart, but nobody can use or end a session with it. */
export const publicSessionId = (sessionId: string): string =>
  createHash('sha256').update(sessionId).digest('hex').slice(0, 12);
