/**
 * The built-in engine answers like a real one: the same items, refusals, pages, stream records and units for the same
 * requests. So it is not its own judge where it stands in for DynamoDB.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { ComparedEngines, type Difference } from '../support/compared-engines.ts';
import { cases, type Request } from '../support/engine-cases.ts';
import { wide } from '../support/wide.ts';
import '../support/engine.setup.ts';

const { name, behind } = inject('engine');

const isRefusal = (outcome: unknown): boolean =>
  typeof outcome === 'object' && outcome !== null && 'refusal' in outcome;

/**
 * DynamoDB Local is the judge. dynoxide takes some requests that DynamoDB refuses, and refuses some that it takes, so
 * only what both engines take is compared with it. It reports no units of writes, and streams
 * writes that change nothing.
 */
const isExpected = ({ ours, theirs }: Difference): boolean =>
  name === 'dynoxide' && (isRefusal(ours) || isRefusal(theirs));

/**
 * dynoxide removes the wrong elements if one update names two places of a list, fills a list with nulls if a place after
 * its end is set, and shows a key as the old item of an update that makes a new one.
 */
const isFair = ({ operation, input }: Request): boolean =>
  !/"UpdateExpression":"[^"]*\[\d+\]([^"]*\[\d+\]| =)/.test(JSON.stringify(input)) &&
  !(operation === 'UpdateItem' && input.ReturnValues === 'ALL_OLD');
const fairCases = name === 'dynoxide' ? cases.map((requests) => requests.filter(isFair)) : cases;

/** A case has up to ten requests and looks at the table, its indexes and its stream. DynamoDB Local does 30 a second. */
const numRuns = wide ? 2_000 : 200;
/** Only a net, for a busy machine. */
const timeout = 1_800_000;

// The engine can't be compared with itself.
describe.skipIf(name === 'memory')('the built-in engine', () => {
  const engines = new ComparedEngines(behind, { isExpected, isExact: name !== 'dynoxide' });

  beforeAll(() => engines.start());
  afterAll(() => engines.stop());

  it(`does the same as ${name} for ${numRuns} random cases`, { timeout }, async () => {
    await fc.assert(
      fc.asyncProperty(fairCases, async (requests) => {
        const difference = await engines.difference(requests);
        if (difference === undefined) return;
        const { request, ours, theirs } = difference;
        expect(ours, JSON.stringify(request)).toEqual(theirs);
      }),
      { numRuns },
    );
    const { answered, refused, records, left } = engines.seen;
    // A generator that never reaches the interesting cases would prove nothing.
    for (const operation of ['PutItem', 'UpdateItem', 'DeleteItem', 'TransactWriteItems', 'BatchWriteItem'])
      expect(answered.get(operation), operation).toBeGreaterThan(numRuns / 20);
    for (const refusal of ['ValidationException', 'ConditionalCheckFailedException', 'TransactionCanceledException'])
      expect(refused.get(refusal), refusal).toBeGreaterThan(numRuns / 20);
    expect(records).toBeGreaterThan(numRuns);
    if (name === 'dynamodb-local') expect(left).toBe(0);
  });
});
