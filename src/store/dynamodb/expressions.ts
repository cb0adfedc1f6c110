import type { ConditionalUpdate } from './item-table.ts';
import { endedNames, holderNames } from './lock-item.ts';

/** Every attribute name is an alias: `ttl`, `limit` and friends are reserved words, and slots are named by leases. */
const plainNames: Record<string, string> = {
  ...Object.fromEntries(
    'pk rev fence lim used at q t qb w ed ttl lp ln ap as sp i k l p s g b'
      .split(' ')
      .map((name) => [`#${name}`, name]),
  ),
  ...Object.fromEntries(endedNames.map((name) => [`#${name}`, name])),
};

/** `:none` is nobody, or no ending yet. Not an empty map: DynamoDB Local's stream drops those. */
const plainValues: Record<string, unknown> = { ':zero': 0, ':one': 1, ':none': null, ':empty': [] };

export const slotNames = (slot: string): Record<string, string> => {
  const names = holderNames(slot);
  return { '#h': names.claim, '#f': names.fence, '#a': names.acquiredAt, '#x': names.expiresAt };
};

export interface Clauses {
  readonly set: readonly string[];
  readonly remove?: readonly string[];
  /** Into a set, or out of one. */
  readonly add?: string;
  readonly take?: string;
  readonly when: string;
}

/** DynamoDB refuses names and values that no expression uses, so only those in use are sent. */
export function update(
  { set, remove = [], add, take, when }: Clauses,
  names: Record<string, string>,
  values: Record<string, unknown>,
): ConditionalUpdate {
  const UpdateExpression =
    `SET ${set.join(', ')}` +
    (remove.length === 0 ? '' : ` REMOVE ${remove.join(', ')}`) +
    (add === undefined ? '' : ` ADD ${add}`) +
    (take === undefined ? '' : ` DELETE ${take}`);
  const used = new Set(`${UpdateExpression} ${when}`.match(/[#:]\w+/g));
  const ExpressionAttributeNames: Record<string, string> = {};
  const ExpressionAttributeValues: Record<string, unknown> = {};
  for (const alias of used) {
    if (alias.startsWith('#')) ExpressionAttributeNames[alias] = names[alias] ?? (plainNames[alias] as string);
    else ExpressionAttributeValues[alias] = values[alias] ?? plainValues[alias];
  }
  return { UpdateExpression, ConditionExpression: when, ExpressionAttributeNames, ExpressionAttributeValues };
}

/** Every write raises the revision and says when it was made. */
export const changed = ['#rev = #rev + :one', '#at = :now'];
/** The tail of the queue is empty wherever the front is. */
export const nobodyWaits = 'attribute_not_exists(#q[0])';
/**
 * A late duplicate never takes the lock again after its lease has ended. Nor while there is a note of how it ended, though that be
 * forgotten otherwise: the note would be taken for the next ending's.
 */
export const notEnded = `NOT (:id IN (${endedNames.map((name) => `#${name}`).join(', ')})) AND attribute_not_exists(#ed.#lease)`;
export const leaseName = (leaseId: string): Record<string, string> => ({ '#lease': leaseId });
/** A lease as it is compared, and as it goes into and out of a set. */
export const leaseValues = (leaseId: string) => ({ ':id': leaseId, ':own': new Set([leaseId]) });

/** The newest ending, of a lease that was given back, goes to e0 and each earlier one moves up; the oldest is forgotten. */
export const rememberEnding = endedNames.map((name, index) =>
  index === 0 ? `#${name} = :id` : `#${name} = if_not_exists(#e${index - 1}, :none)`,
);
