/**
 * AWS prices in us-east-1, on demand, in dollars per million, for the estimate on the dashboard. docs/cost.md gives
 * their source and lists the other costs.
 */
export const dollarsPerMillion = {
  /** DynamoDB: a write of up to 1 KB. */
  writeUnit: 0.625,
  /** DynamoDB: a strongly consistent read of up to 4 KB. */
  readUnit: 0.125,
  /** API Gateway, HTTP API. */
  httpRequest: 1.0,
  /** Lambda: a call. */
  invocation: 0.2,
  /** Lambda on ARM: 0.0000133334 dollars for a gigabyte-second. */
  gigabyteSecond: 13.3334,
} as const;
