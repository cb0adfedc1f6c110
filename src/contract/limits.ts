/**
 * The bounds of the contract as plain constants: no validation library, so that the SDK and the command line load nothing with
 * them. The bounds of a lock itself stand with its rules.
 */
export { lockLimits } from '../lock/limits.ts';
export { sessionLimits } from '../session/state.ts';

/** What a name may be, in the words of an error message and as the pattern that checks it. */
export interface NameRule {
  readonly pattern: RegExp;
  readonly allowed: string;
}

export const nameRules = {
  /** It stands in paths and in IAM policies, hence so few characters. */
  namespace: { pattern: /^[a-z0-9][a-z0-9-]{0,62}$/, allowed: '1 to 63 of a-z, 0-9 and -, not starting with -' },
  /** Of a lock, a record or a session. Each of these characters may stand in a path as it is (RFC 3986). */
  resource: {
    pattern: /^[A-Za-z0-9][A-Za-z0-9._:@=+~-]{0,254}$/,
    allowed: '1 to 255 of A-Z, a-z, 0-9 and . _ : @ = + ~ -, starting with a letter or digit',
  },
  /** The beginning of such a name; empty, it is the beginning of every one. */
  prefix: { pattern: /^[A-Za-z0-9._:@=+~-]{0,255}$/, allowed: 'the beginning of a name' },
  /** A secret that the caller chooses: sixteen characters are 96 random bits. */
  secret: { pattern: /^[A-Za-z0-9_-]{16,128}$/, allowed: '16 to 128 of A-Z, a-z, 0-9, _ and -' },
  /** As API Gateway makes it. Anything else could never be reached, and a waiter parked on it would only be in the way. */
  connection: {
    pattern: /^[A-Za-z0-9_-]{1,126}={0,2}$/,
    allowed: 'a connection id, from the first message of a socket',
  },
} as const satisfies Record<string, NameRule>;

export const requestLimits = {
  /** Everything but a record's value fits into this many times over. */
  bodyBytesMax: 64 * 1024,
  /** Of one page of a listing or a history. */
  pageSizeMax: 1_000,
  /** A cursor holds one name, encoded. */
  cursorLengthMax: 512,
  /** API Gateway gives up after 30 s, of which a cold start, the store's retries and the way back take their share. */
  pollMsMax: 25_000,
  /** The longest that one waiting request is kept open: API Gateway ends it after 30 s. */
  answerMsMax: 30_000,
} as const;

export const notifyLimits = {
  /** A waiter's own reference, which an event carries. */
  refLengthMax: 256,
  /** Step Functions' own maximum for a task token. */
  tokenLengthMax: 2_048,
  /** Lambda's own maximum for the id of a durable execution's callback. */
  callbackIdLengthMax: 1_024,
} as const;
