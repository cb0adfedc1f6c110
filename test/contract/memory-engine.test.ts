/** The built-in engine answers like a real one: the same items, refusals and units for every request. */
import { randomUUID } from 'node:crypto';
import { DynamoDB, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type ServedEngine, serveEngine } from '../../src/engine/server.ts';
import { localCredentials } from '../../src/local/engine/endpoint.ts';
import { ensureTable } from '../../src/local/table.ts';
import { engineClient } from '../support/engine.ts';

const name = 'holdfast-test-engine';
const tableName = `${name}-${randomUUID()}`;

/** Attributes of every type, few enough that random requests meet each other's. */
const attribute = fc.constantFrom('a', 'b', 'c');
const whole = fc.integer({ min: -5, max: 2_000_000_000_000 }).map((number) => ({ N: String(number) }));
const text = fc.string({ minLength: 1, maxLength: 12, unit: 'grapheme' }).map((value) => ({ S: value }));
const long = fc.integer({ min: 900, max: 2_100 }).map((length) => ({ S: 'x'.repeat(length) }));
const set = fc.uniqueArray(fc.constantFrom('l1', 'l2', 'l3'), { minLength: 1 }).map((SS) => ({ SS }));
const leaf = fc.oneof(
  whole,
  text,
  fc.constant({ NULL: true as const }),
  fc.boolean().map((BOOL) => ({ BOOL })),
);
const map = fc.record({ i: text, k: whole, s: text }, { requiredKeys: ['i'] }).map((M) => ({ M }));
const value = fc.oneof(
  leaf,
  set,
  map,
  fc.array(fc.oneof(leaf, map), { maxLength: 4 }).map((L) => ({ L })),
  long,
);

const path = fc.oneof(
  attribute.map((first) => `#${first}`),
  fc.tuple(attribute, fc.nat(3)).map(([first, index]) => `#${first}[${index}]`),
  fc.tuple(attribute, fc.nat(2)).map(([first, index]) => `#${first}[${index}].#k`),
  fc.tuple(attribute, fc.constantFrom('i', 'k', 's')).map(([first, member]) => `#${first}.#${member}`),
);
const operand = fc.oneof(path, fc.constantFrom(':n', ':t', ':l'));
const assigned = fc.oneof(
  operand,
  fc.tuple(operand, fc.constantFrom('+', '-'), operand).map((parts) => parts.join(' ')),
  fc.tuple(path, operand).map(([first, other]) => `if_not_exists(${first}, ${other})`),
  fc.tuple(path).map(([first]) => `if_not_exists(${first}, :n) + :n`),
  fc.tuple(path).map(([first]) => `list_append(if_not_exists(${first}, :l), :l)`),
);
const test = fc.oneof(
  path.map((first) => `attribute_exists(${first})`),
  path.map((first) => `attribute_not_exists(${first})`),
  fc.tuple(path, fc.constantFrom('=', '<>', '<', '<=', '>', '>='), operand).map((parts) => parts.join(' ')),
  fc.tuple(path, operand).map(([first, other]) => `contains(${first}, ${other})`),
  fc.tuple(path, fc.constantFrom('=', '<', '>=')).map(([first, sign]) => `size(${first}) ${sign} :n`),
  path.map((first) => `:t IN (${first}, #b)`),
  path.map((first) => `${first} BETWEEN :n AND :m`),
);
const condition = fc.oneof(
  test,
  fc.tuple(test, fc.constantFrom('AND', 'OR'), test).map((parts) => parts.join(' ')),
  fc.tuple(test, test, test).map(([one, other, third]) => `${one} AND (${other} OR NOT ${third})`),
);
/** The keys of two indexes: set, moved and removed like any attribute, but in pairs, and never of another type. */
const indexKeys = fc
  .tuple(
    fc.option(fc.record({ ap: text, as: whole }), { nil: {} }),
    fc.option(fc.record({ lp: text, ln: text }), { nil: {} }),
  )
  .map(([awaited, listing]) => ({ ...awaited, ...listing }));
const indexUpdate = fc.constantFrom(
  '',
  '#ap = :t, #as = :n',
  '#ap = if_not_exists(#ap, :t), #as = if_not_exists(#as, :n)',
  '#lp = :t, #ln = :t',
);
const indexRemoval = fc.constantFrom([], [], ['#ap', '#as']);

const assignments = (list: readonly string[]): string => {
  const given = list.filter((one) => one !== '');
  return given.length === 0 ? '' : `SET ${given.join(', ')}`;
};

const update = fc
  .record({
    index: indexUpdate,
    set: fc.array(fc.tuple(path, assigned), { maxLength: 2 }),
    remove: fc.tuple(fc.array(path, { maxLength: 2 }), indexRemoval).map((lists) => lists.flat()),
    add: fc.option(fc.tuple(attribute, fc.constantFrom(':n', ':s')), { nil: undefined, freq: 3 }),
    take: fc.option(fc.tuple(attribute), { nil: undefined, freq: 3 }),
  })
  .map(({ index, set: sets, remove, add, take }) =>
    [
      assignments([index, ...sets.map(([to, from]) => `${to} = ${from}`)]),
      remove.length > 0 ? `REMOVE ${remove.join(', ')}` : '',
      add === undefined ? '' : `ADD #${add[0]} ${add[1]}`,
      take === undefined ? '' : `DELETE #${take[0]} :s`,
    ].join(' '),
  )
  .filter((expression) => expression.trim() !== '');

const key = fc.constantFrom('k1', 'k2').map((sk) => ({ pk: { S: 'demo' }, sk: { S: sk } }));
const values = fc
  .record({ n: whole, more: fc.nat(9), t: text, l: fc.array(leaf, { maxLength: 2 }), s: set })
  .map(({ n, more, t, l, s }) => ({
    ':n': n,
    ':m': { N: String(Number(n.N) + more) },
    ':t': t,
    ':l': { L: l },
    ':s': s,
  }));

type Request = { readonly operation: 'putItem' | 'updateItem' | 'deleteItem'; readonly input: Record<string, unknown> };

/** Only the aliases that an expression uses may be sent. */
function withAliases(input: Record<string, unknown>, given: Record<string, unknown>): Record<string, unknown> {
  const expressions = `${input.ConditionExpression ?? ''} ${input.UpdateExpression ?? ''}`;
  const used = [...new Set(expressions.match(/[#:]\w+/g))];
  const names = used.filter((alias) => alias.startsWith('#')).map((alias) => [alias, alias.slice(1)]);
  const inUse = used.filter((alias) => alias.startsWith(':')).map((alias) => [alias, given[alias]]);
  return {
    ...input,
    ...(names.length === 0 ? {} : { ExpressionAttributeNames: Object.fromEntries(names) }),
    ...(inUse.length === 0 ? {} : { ExpressionAttributeValues: Object.fromEntries(inUse) }),
  };
}

const request: fc.Arbitrary<Request> = fc
  .record({
    kind: fc.constantFrom('putItem' as const, 'updateItem' as const, 'updateItem' as const, 'deleteItem' as const),
    key,
    item: fc
      .tuple(fc.dictionary(attribute, value, { maxKeys: 3 }), indexKeys)
      .map(([own, keys]) => ({ ...own, ...keys })),
    condition: fc.option(condition, { nil: undefined }),
    update,
    values,
    returns: fc.constantFrom('NONE', 'ALL_OLD'),
  })
  .map(({ kind, key: Key, item, condition: when, update: UpdateExpression, values: given, returns }) => ({
    operation: kind,
    input: withAliases(
      {
        ...(kind === 'putItem' ? { Item: { ...item, ...Key } } : { Key }),
        ...(kind === 'updateItem' ? { UpdateExpression, ReturnValues: 'ALL_NEW' } : { ReturnValues: returns }),
        ...(when === undefined ? {} : { ConditionExpression: when }),
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      },
      given,
    ),
  }));

type Send = (input: unknown) => Promise<{ Attributes?: unknown; ConsumedCapacity?: { CapacityUnits?: number } }>;

/** Each run has a partition of its own. */
function inRun(input: Record<string, unknown>, run: string): Record<string, unknown> {
  const which = input.Item === undefined ? 'Key' : 'Item';
  return { ...input, [which]: { ...(input[which] as object), pk: { S: run } } };
}

describe('the built-in engine', () => {
  const shared = inject('engine');
  let served: ServedEngine;
  let real: DynamoDB;
  let own: DynamoDB;

  beforeAll(async () => {
    served = await serveEngine();
    const config = {
      region: shared.region,
      credentials: localCredentials,
      maxAttempts: 1,
    } satisfies DynamoDBClientConfig;
    real = new DynamoDB({ ...config, endpoint: shared.behind });
    own = new DynamoDB({ ...config, endpoint: served.endpoint });
    await Promise.all([ensureTable(engineClient(shared.behind), tableName), ensureTable(own, tableName)]);
  });
  afterAll(async () => {
    own.destroy();
    real.destroy();
    await served.stop();
  });

  const ask = async (client: DynamoDB, { operation, input }: Request, run: string) => {
    const whole = { TableName: tableName, ReturnConsumedCapacity: 'TOTAL', ...inRun(input, run) };
    try {
      const { Attributes, ConsumedCapacity } = await (client[operation] as Send).call(client, whole);
      return { attributes: tidy(Attributes), units: ConsumedCapacity?.CapacityUnits };
    } catch (error) {
      const { name: code, Item } = error as Error & { Item?: unknown };
      return { code, item: tidy(Item) };
    }
  };

  // dynoxide reports no units for writes, and differs from DynamoDB in what it calls a type error.
  it.skipIf(shared.name !== 'dynamodb-local')(
    'makes the same items as DynamoDB Local, refuses the same requests, and charges the same units',
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(request, { minLength: 4, maxLength: 25 }), async (requests) => {
          const run = randomUUID();
          for (const one of requests) {
            const [theirs, ours] = [await ask(real, one, run), await ask(own, one, run)];
            // DynamoDB refuses some expressions only because of their form, such as `a = a`. It does no harm to accept them.
            if (theirs.code === 'ValidationException' && ours.code !== theirs.code) return;
            expect(ours, JSON.stringify(one)).toEqual(theirs);
          }
        }),
        { numRuns: 25 },
      );
    },
  );
});

/** Sets have no order. */
function tidy(item: unknown): unknown {
  return JSON.parse(JSON.stringify(item ?? null), (member, content) =>
    member === 'SS' ? [...(content as string[])].sort() : content,
  );
}
