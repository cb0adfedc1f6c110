/** Every bound of a record, with its reason. */
export const recordLimits = {
  /** Writes that a record remembers, to recognise their repetition: as many as may come between a lost answer and its retry on a busy record. */
  writeIdsRemembered: 8,
  /** Bytes of the value's JSON text. DynamoDB takes items up to 400 KiB; this leaves room for the key and what comes later. */
  valueBytesMax: 256 * 1024,
  /** Bytes of a request around the value: `{"value":…}`, with room for a sender that indents. */
  wrappingBytesMax: 1024,
  /** The shortest time until a record's end: less would be over before the answer to its write has arrived. */
  expiresInMsMin: 1_000,
  /** A year. What must be kept for longer needs no end. */
  expiresInMsMax: 31_536_000_000,
  /** Versions rise by one per write: at DynamoDB's 1,000 writes a second to an item, this lasts for 285,000 years. */
  versionMax: Number.MAX_SAFE_INTEGER,
} as const;
