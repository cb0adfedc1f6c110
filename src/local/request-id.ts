import { randomFillSync } from 'node:crypto';

/**
 * Eleven random bytes, the length of API Gateway's own request and connection ids: 88 bits, which nobody guesses
 * and which never repeat in practice.
 */
const idBytes = 11;

// One call to the random source for 256 ids: a system call per request would be the dearest part of an event.
const pool = Buffer.allocUnsafe(idBytes * 256);
let poolOffset = pool.length;

/** An id shaped like API Gateway's, e.g. `QQCtFipSIAMEPNQ=`: URL-safe base64 that ends in its padding. */
export function createGatewayId(): string {
  if (poolOffset === pool.length) {
    randomFillSync(pool);
    poolOffset = 0;
  }
  const end = poolOffset + idBytes;
  const id = `${pool.toString('base64url', poolOffset, end)}=`;
  poolOffset = end;
  return id;
}
