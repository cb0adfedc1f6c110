/** Every limit of a record, with its reason. */
export const recordLimits = {
  /**
   * How many writes a record remembers, to recognize a repetition. On a busy record, this many may come between a lost
   * answer and its retry.
   */
  writeIdsRemembered: 8,
  /**
   * Bytes of the value's JSON text. DynamoDB takes items up to 400 KiB. This leaves space for the key and later fields.
   */
  valueBytesMax: 256 * 1024,
  /** Bytes of a request around the value: `{"value":…}`, with space for a sender that indents. */
  wrappingBytesMax: 1024,
  /** The shortest time until a record's end. A shorter one could be over before the answer to its write arrives. */
  expiresInMsMin: 1_000,
  /** A year. A record that must be kept for longer needs no end. */
  expiresInMsMax: 31_536_000_000,
  /** Versions rise by one per write: at DynamoDB's 1,000 writes a second to an item, this lasts for 285,000 years. */
  versionMax: Number.MAX_SAFE_INTEGER,
} as const;
