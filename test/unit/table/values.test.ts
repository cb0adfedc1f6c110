import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromStored, type StoredItem, toStored } from '../../../src/table/json.ts';

const scalars = fc.oneof(
  fc.string(),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e15, max: 1e15 }),
  fc.boolean(),
  fc.constant(null),
);
/** If an object has its own property called `constructor`, the SDK treats it as an instance of a class. */
const name = fc.string({ minLength: 1 }).filter((text) => !(text in {}));
const { values } = fc.letrec<{ values: Record<string, unknown>; value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    scalars,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 4 }).map((members) => new Set(members)),
    tie('values'),
  ),
  values: fc.dictionary(name, tie('value'), { maxKeys: 5, noNullPrototype: true }),
}));

describe('values on the wire', () => {
  it("are the same as those of the SDK's marshalling", () => {
    fc.assert(
      fc.property(values, (stored) => {
        expect(toStored(stored)).toEqual(marshall(stored));
      }),
    );
  });

  it('come back as the SDK reads them', () => {
    fc.assert(
      fc.property(values, (stored) => {
        const wire = marshall(stored);
        expect(fromStored(wire as StoredItem)).toEqual(unmarshall(wire));
      }),
    );
  });

  it('leave out undefined values and refuse those that no store can keep', () => {
    expect(toStored({ a: undefined, b: 1 })).toEqual({ b: { N: '1' } });
    expect(() => toStored({ a: () => {} })).toThrow(TypeError);
  });

  it.each([{ B: 'AAAA' }, { NS: ['1'] }])('are not read if they are of a type that is never written: %j', (value) => {
    expect(() => fromStored({ a: value as unknown as StoredItem[string] })).toThrow(
      new TypeError(`A stored value is of a type that isn't used here: ${Object.keys(value).join()}.`),
    );
  });
});
