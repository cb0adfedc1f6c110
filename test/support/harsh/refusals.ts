/** How DynamoDB refuses a request, in its own JSON. */
import type { Chance } from '../../world/chance.ts';

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are passed on as they are, and read by field.
  readonly body: any;
}

export const refusal = (type: string, message: string, more: object = {}): Answer => ({
  status: 400,
  body: { __type: `com.amazonaws.dynamodb.v20120810#${type}`, message, ...more },
});

export const internalError: Answer = {
  status: 500,
  body: { __type: 'com.amazonaws.dynamodb.v20120810#InternalServerError', message: 'Internal server error' },
};

export const conflict = refusal('TransactionConflictException', 'Transaction is ongoing for the item');

export const inProgress = refusal(
  'TransactionInProgressException',
  'Transaction with the given client token is already in progress',
);

const tooLargeText = 'Item size to update has exceeded the maximum allowed size';
export const tooLarge = refusal('ValidationException', tooLargeText);

/** One of the items was refused for this reason. The others were fine. */
function cancelled(items: number, at: number, reason: { readonly Code: string; readonly Message: string }): Answer {
  const reasons = Array.from({ length: items }, (_, index) => (index === at ? reason : { Code: 'None' }));
  const codes = reasons.map(({ Code }) => Code).join(', ');
  const message = `Transaction cancelled, please refer cancellation reasons for specific reasons [${codes}]`;
  return refusal('TransactionCanceledException', message, { CancellationReasons: reasons });
}

export const cancelledByConflict = (items: number, at: number): Answer =>
  cancelled(items, at, { Code: 'TransactionConflict', Message: 'Transaction is ongoing for the item' });

export const cancelledBySize = (items: number, at: number): Answer =>
  cancelled(items, at, { Code: 'ValidationError', Message: tooLargeText });

/** What a request asked for too much of. */
export interface Throttled {
  readonly kind: 'read' | 'write';
  /** The index that a query reads. A write may also be throttled because an index can't follow. */
  readonly index?: string | undefined;
  /** The number of items if it is a transaction. */
  readonly items?: number | undefined;
  /** True if the units of one key were used up. Otherwise any of the limits was reached. */
  readonly byKey: boolean;
}

type Limit = 'KeyRangeThroughput' | 'ProvisionedThroughput' | 'MaxOnDemandThroughput' | 'AccountLimit';

/** Which exceptions name which limit. A table with provisioned capacity differs from one that pays per request. */
const exceptionsOf: Readonly<Record<Limit, readonly string[]>> = {
  KeyRangeThroughput: ['ProvisionedThroughputExceededException', 'ThrottlingException'],
  ProvisionedThroughput: ['ProvisionedThroughputExceededException'],
  MaxOnDemandThroughput: ['ThrottlingException'],
  AccountLimit: ['RequestLimitExceeded', 'ThrottlingException'],
};

/** A refusal for too much traffic, with its reasons. */
export function throttled({ kind, index, items, byKey }: Throttled, chance: Chance): Answer {
  if (items !== undefined && chance.happens(0.5)) {
    const Code = chance.happens(0.5) ? 'ThrottlingError' : 'ProvisionedThroughputExceeded';
    const Message = 'Throughput exceeds the current capacity for one or more tables or indexes.';
    return cancelled(items, chance.between(0, items - 1), { Code, Message });
  }
  const limits = Object.keys(exceptionsOf) as Limit[];
  const limit = byKey ? 'KeyRangeThroughput' : (limits[chance.between(0, limits.length - 1)] as Limit);
  const names = exceptionsOf[limit];
  const name = names[chance.between(0, names.length - 1)] as string;
  const isOfIndex = index !== undefined || (kind === 'write' && !byKey && chance.happens(0.3));
  const table = 'arn:aws:dynamodb:us-east-1:000000000000:table/holdfast';
  const reason = {
    reason: `${isOfIndex ? 'Index' : 'Table'}${kind === 'write' ? 'Write' : 'Read'}${limit}Exceeded`,
    resource: isOfIndex ? `${table}/index/${index ?? 'any'}` : table,
  };
  // The two older exceptions have the field in capitals.
  const field = name === 'ThrottlingException' ? 'throttlingReasons' : 'ThrottlingReasons';
  const message = `Throughput exceeds the limit of one or more resources: ${reason.reason}.`;
  return refusal(name, message, { [field]: [reason] });
}

/** The Streams API has its own limits: five reads of a shard and ten descriptions of a stream in a second. */
export const streamThrottled = refusal(
  'LimitExceededException',
  'Too many requests for the stream or one of its shards.',
);
