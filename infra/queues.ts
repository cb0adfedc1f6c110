import { Duration } from 'aws-cdk-lib';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

/** Encrypted, and only spoken to over TLS. */
export const guarded = { encryption: QueueEncryption.SQS_MANAGED, enforceSSL: true } as const;

/** What could not be handled. Kept for as long as SQS can, so that a long weekend loses nothing. */
export const createDeadLetters = (scope: Construct, id: string): Queue =>
  new Queue(scope, id, { ...guarded, retentionPeriod: Duration.days(14) });
