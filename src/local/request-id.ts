import { randomFillSync } from 'node:crypto';

/**
 * Eleven random bytes, as in API Gateway's own request and connection ids. These are 88 bits: nobody can guess them,
 * and in practice they never repeat.
 */
const idBytes = 11;

// One call to the random source for 256 ids. A system call for each request would be the most expensive part of an
// event.
const pool = Buffer.allocUnsafe(idBytes * 256);
let poolOffset = pool.length;

/** An id in the format of API Gateway's, for example `QQCtFipSIAMEPNQ=`: URL-safe base64 that ends with padding. */
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
