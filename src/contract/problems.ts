/** Every code that a caller can get, with its HTTP status and its title. */
export const problemTypes = {
  'invalid-request': { status: 400, title: 'The request is not valid' },
  unauthorized: { status: 401, title: 'The caller is not known' },
  forbidden: { status: 403, title: 'The caller may not do this' },
  'not-found': { status: 404, title: 'There is nothing here' },
  'method-not-allowed': { status: 405, title: 'The method does not fit this path' },
  'lock-held': { status: 409, title: 'The lock is held' },
  'wait-timeout': { status: 409, title: 'The wait is over and the lock was not granted' },
  'lease-lost': { status: 409, title: 'The lease is not in force' },
  'limit-mismatch': { status: 409, title: 'The lock is in use with another limit' },
  deadlock: { status: 409, title: 'Waiting would never end' },
  'stale-fence': { status: 409, title: 'The fence is older than the highest seen' },
  'session-lost': { status: 410, title: 'The session is over' },
  'version-mismatch': { status: 412, title: 'The record has another version' },
  'too-large': { status: 413, title: 'The body is too large' },
  'unsupported-media-type': { status: 415, title: 'The body is not JSON' },
  'precondition-required': { status: 428, title: 'A precondition is required' },
  'queue-full': { status: 429, title: 'Too many are waiting' },
  throttled: { status: 429, title: 'Too many requests' },
  internal: { status: 500, title: 'Something that should not happen did' },
  unavailable: { status: 503, title: 'The store can not be reached' },
} as const;

export type ProblemCode = keyof typeof problemTypes;

/** Problems that every operation may answer: no permission, a wrong request, and a store that is unavailable or busy. */
export const commonProblems = [
  'invalid-request',
  'unauthorized',
  'forbidden',
  'throttled',
  'internal',
  'unavailable',
] as const satisfies readonly ProblemCode[];

/** Problems that every operation with a body may also answer. */
export const bodyProblems = ['too-large', 'unsupported-media-type'] as const satisfies readonly ProblemCode[];
