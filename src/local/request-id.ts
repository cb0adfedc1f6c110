import { randomBytes } from 'node:crypto';

/**
 * An id in the format of API Gateway's request and connection ids, for example `QQCtFipSIAMEPNQ=`: URL-safe base64 that
 * ends with padding. Eleven random bytes are 88 bits: nobody can guess them, and in practice they never repeat.
 */
export const createGatewayId = (): string => `${randomBytes(11).toString('base64url')}=`;
