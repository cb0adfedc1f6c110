import { Duration } from 'aws-cdk-lib';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

/** Encrypted, and reached over TLS only. */
export const guarded = { encryption: QueueEncryption.SQS_MANAGED, enforceSSL: true } as const;

/** For what could not be handled. Kept for the 14 days that SQS allows, so that a long weekend loses nothing. */
export const createDeadLetters = (scope: Construct, id: string): Queue =>
  new Queue(scope, id, { ...guarded, retentionPeriod: Duration.days(14) });
