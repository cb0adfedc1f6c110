/** A record's every write as one conditional update that needs no read. `decide` is the specification: a property test runs both. */
import type { Expectation, RecordCommand } from '../../record/commands.ts';
import { howWritten } from '../../record/decide.ts';
import type { EpochMs } from '../../time/clock.ts';
import type { ConditionalUpdate } from './item-table.ts';

/** Compare: it holds only for the version that the writer saw, for any record at all, or for none. A tombstone has no value. */
const expected: Record<Expectation['kind'], string> = {
  version: 'attribute_exists(#val) AND #v = :expected',
  present: 'attribute_exists(#val)',
  absent: 'attribute_not_exists(#val)',
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
  const set = ['#v = if_not_exists(#v, :zero) + :one', '#at = :now', '#wid = :wid', '#how = :how'];
  if (kind === 'put') set.push('#val = :value');
  if (fence !== undefined) set.push('#floor = :fence');
  const unfenced = 'attribute_not_exists(#floor)';
  return {
    UpdateExpression: `SET ${set.join(', ')}${kind === 'delete' ? ' REMOVE #val' : ''}`,
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
    },
    ExpressionAttributeValues: {
      ':zero': 0,
      ':one': 1,
      ':now': now,
      ':wid': writeId,
      ':how': howWritten(command),
      ...(kind === 'put' ? { ':value': command.value } : {}),
      ...(fence === undefined ? {} : { ':fence': fence }),
      ...(expects.kind === 'version' ? { ':expected': expects.version } : {}),
    },
  };
}
