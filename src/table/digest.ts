import { createHash } from 'node:crypto';

/**
 * A secret's name in keys, indexes and the names of attributes. CloudTrail's data events and Contributor Insights show those in
 * clear. 160 bits of a digest name the secret as well, and give no rights.
 */
export const digestOf = (secret: string): string =>
  createHash('sha256').update(secret).digest('base64url').slice(0, 27);
