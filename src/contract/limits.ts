/**
 * The limits of the contract as plain constants, without the validation library, which the SDK and the command line must not
 * load. The limits of a lock are in the folder of its rules.
 */
export { lockLimits } from '../lock/limits.ts';
export { sessionLimits } from '../session/state.ts';

/** What a name may be: the pattern that checks it, and the same in words for error messages. */
export interface NameRule {
  readonly pattern: RegExp;
  readonly allowed: string;
}

export const nameRules = {
  /** It is part of paths and of IAM policies, so only a few characters are allowed. */
  namespace: { pattern: /^[a-z0-9][a-z0-9-]{0,62}$/, allowed: '1 to 63 of a-z, 0-9 and -, not starting with -' },
  /** The name of a lock, a record or a session. A path may contain each of these characters without escaping (RFC 3986). */
  resource: {
    pattern: /^[A-Za-z0-9][A-Za-z0-9._:@=+~-]{0,254}$/,
    allowed: '1 to 255 of A-Z, a-z, 0-9 and . _ : @ = + ~ -, starting with a letter or digit',
  },
  /** The beginning of such a name. An empty prefix fits every name. */
  prefix: { pattern: /^[A-Za-z0-9._:@=+~-]{0,255}$/, allowed: 'the beginning of a name' },
  /** A secret that the caller chooses. Sixteen random characters have 96 bits. */
  secret: { pattern: /^[A-Za-z0-9_-]{16,128}$/, allowed: '16 to 128 of A-Z, a-z, 0-9, _ and -' },
  /** The form that API Gateway uses. A waiter parked on anything else could never be reached, and would block the queue. */
  connection: {
    pattern: /^[A-Za-z0-9_-]{1,126}={0,2}$/,
    allowed: 'a connection id, from the first message of a socket',
  },
} as const satisfies Record<string, NameRule>;

export const requestLimits = {
  /** Every body except a record's value is much smaller than this. */
  bodyBytesMax: 64 * 1024,
  /** Entries on one page of a listing or a history. */
  pageSizeMax: 1_000,
  /** A cursor contains one name, or some places of a history, encoded. */
  cursorLengthMax: 1_024,
  /** API Gateway ends a request after 30 s. A cold start, the retries of the store and the answer need some of that time. */
  pollMsMax: 25_000,
} as const;

export const notifyLimits = {
  /** The waiter's own reference in an event. */
  refLengthMax: 256,
  /** The limit of Step Functions for a task token. */
  tokenLengthMax: 2_048,
  /** The limit of Lambda for the id of a durable function's callback. */
  callbackIdLengthMax: 1_024,
} as const;
