import { createHash } from 'node:crypto';

/** What others see of a session: enough to tell two apart, nothing by which to end or use one. */
export const publicSessionId = (sessionId: string): string =>
  createHash('sha256').update(sessionId).digest('hex').slice(0, 12);
