import { Duration } from 'aws-cdk-lib';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

/** Encrypted, and reachable only over TLS. */
export const protectedQueue = { encryption: QueueEncryption.SQS_MANAGED, enforceSSL: true } as const;

/**
 * For messages that could not be handled. They are kept for 14 days, the longest that SQS allows, so that a long
 * weekend loses nothing.
 */
export const createDeadLetters = (scope: Construct, id: string): Queue =>
  new Queue(scope, id, { ...protectedQueue, retentionPeriod: Duration.days(14) });
