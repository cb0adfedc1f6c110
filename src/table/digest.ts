import { createHash } from 'node:crypto';

/**
 * A secret's name in keys, indexes and the names of attributes. CloudTrail's data events and Contributor Insights show those in
 * clear. 160 bits of a digest name the secret as well, and give no rights.
 */
export const digestOf = (secret: string): string =>
  createHash('sha256').update(secret).digest('base64url').slice(0, 27);

/**
 * The name of a lease, by which rules and table know it. 66 bits: no two leases have the same name by chance, and nobody finds another
 * leaseId with the same name while the lease lasts.
 */
export const leaseNameOf = (leaseId: string): string => digestOf(leaseId).slice(0, 11);
