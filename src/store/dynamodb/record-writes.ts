/** A record's every write as one conditional update of its head that needs no read. `decide` is the specification: a property test runs both. */
import type { Expectation, RecordCommand } from '../../record/commands.ts';
import { howWritten, stateAfter } from '../../record/decide.ts';
import type { EpochMs } from '../../time/clock.ts';
import type { ConditionalUpdate } from './item-table.ts';

/** There is a record: its value is in the head, or it has an end that has not come. A tombstone has neither. */
const isThere = '(attribute_exists(#val) OR #exp > :now)';

/** Compare: it holds only for the version that the writer saw, for any record at all, or for none. */
const expected: Record<Expectation['kind'], string> = {
  version: `${isThere} AND #v = :expected`,
  present: isThere,
  absent: `NOT ${isThere}`,
};

/**
 * Writes where `decide` would.
 *
 * Safe because one condition holds all three claims: what is there is what the writer expects; no higher fence was accepted, and
 * no fence at all where this write has none; and this very write is not the one in force, so a request that the SDK sent twice, or
 * a caller repeated, is done once.
 */
export function writeIfAllowed(command: RecordCommand, now: EpochMs): ConditionalUpdate {
  const { kind, expects, fence, writeId } = command;
  const { expiresAt } = stateAfter(command, 0, now);
  const inHead = kind === 'put' && expiresAt === null;
  const set = ['#v = if_not_exists(#v, :zero) + :one', '#at = :now', '#wid = :wid', '#how = :how'];
  if (inHead) set.push('#val = :value');
  if (expiresAt !== null) set.push('#exp = :exp');
  if (fence !== undefined) set.push('#floor = :fence');
  const remove = [...(inHead ? [] : ['#val']), ...(expiresAt === null ? ['#exp'] : [])];
  const unfenced = 'attribute_not_exists(#floor)';
  return {
    UpdateExpression: `SET ${set.join(', ')} REMOVE ${remove.join(', ')}`,
    ConditionExpression: [
      expected[expects.kind],
      fence === undefined ? unfenced : `(${unfenced} OR #floor <= :fence)`,
      'NOT #wid = :wid',
    ].join(' AND '),
    ExpressionAttributeNames: {
      '#v': 'v',
      '#val': 'val',
      '#floor': 'floor',
      '#at': 'at',
      '#wid': 'wid',
      '#how': 'how',
      '#exp': 'exp',
    },
    ExpressionAttributeValues: {
      ':zero': 0,
      ':one': 1,
      ':now': now,
      ':wid': writeId,
      ':how': howWritten(command),
      ...(inHead ? { ':value': command.value } : {}),
      ...(expiresAt === null ? {} : { ':exp': expiresAt }),
      ...(fence === undefined ? {} : { ':fence': fence }),
      ...(expects.kind === 'version' ? { ':expected': expects.version } : {}),
    },
  };
}

/** The same write, only where the head still has the version that was seen; 0: there is no head. */
export function ifStillAt(seen: number, update: ConditionalUpdate): ConditionalUpdate {
  const isSame = seen === 0 ? 'attribute_not_exists(#v)' : '#v = :seen';
  return {
    ...update,
    ConditionExpression: `${update.ConditionExpression} AND ${isSame}`,
    ExpressionAttributeValues: { ...update.ExpressionAttributeValues, ...(seen === 0 ? {} : { ':seen': seen }) },
  };
}
