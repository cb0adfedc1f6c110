/** Random values, items and expressions, of every form that the stores use, and wrong ones of the same forms. */
import fc from 'fast-check';
import type { Item, Value } from '../../src/engine/values.ts';

/** Stands for the partition of one case. It is replaced before a request is sent. */
export const partition = 'THE-PARTITION';

/* Values. They come from few, so that random conditions are true about as often as not. */

const whole = fc.constantFrom('0', '1', '2', '3', '10', '-1', '1800000000000').map((N): Value => ({ N }));
const anyNumber = fc.oneof(
  { weight: 8, arbitrary: whole },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(
        ...['1.5', '-0.25', '0.1', '1.0', '01', '1e3', '1E-2', '-0', '0.10', '123456789012345678901234567890', '+7'],
        ...['99999999999999999999999999999999999999', '1e125', '1e-130', '0.30000000000000004'],
      )
      .map((N): Value => ({ N })),
  },
);
const wrongNumber = fc
  .constantFrom('', 'x', '1e126', '1e-131', '1234567890123456789012345678901234567890.5', ' 1')
  .map((N): Value => ({ N }));
const string = fc.constantFrom('', 'a', 'ab', 'b', 'l1', 'é', '\u{1f512}', '\uffee', 'x'.repeat(1_100));
const text = string.map((S): Value => ({ S }));
const set = fc.uniqueArray(fc.constantFrom('l1', 'l2', 'l3', 'a'), { minLength: 1 }).map((SS): Value => ({ SS }));
const numbers = fc.uniqueArray(fc.constantFrom('1', '2', '10'), { minLength: 1 }).map((NS): Value => ({ NS }));
const other = fc.oneof(
  fc.constant<Value>({ NULL: true }),
  fc.boolean().map((BOOL): Value => ({ BOOL })),
);
const leaf = fc.oneof({ weight: 3, arbitrary: anyNumber }, { weight: 3, arbitrary: text }, set, other, numbers);
const list = (member: fc.Arbitrary<Value>) => fc.array(member, { maxLength: 4 }).map((L): Value => ({ L }));
const map = (member: fc.Arbitrary<Value>) =>
  fc
    .dictionary(fc.constantFrom('i', 'k', 's', 'a b', 'toString', '__proto__'), member, { maxKeys: 3 })
    .map((members): Value => ({ M: Object.fromEntries(Object.entries(members)) }));
const small = fc.oneof({ weight: 3, arbitrary: leaf }, map(leaf), list(leaf));
const value = fc.oneof({ weight: 3, arbitrary: leaf }, { weight: 2, arbitrary: map(small) }, list(small));
/** What DynamoDB can't store. */
const wrong: fc.Arbitrary<Value> = fc.oneof(
  wrongNumber,
  fc.constantFrom<Value>(
    { SS: [] },
    { SS: ['a', 'a'] },
    { NS: ['1', '1.0'] },
    { M: { '': { S: 'k' } } },
    { L: [{ M: { '': { N: '1' } } }] },
    { SS: [''] },
  ),
);
const mostlyRight = fc.oneof({ weight: 60, arbitrary: value }, { weight: 1, arbitrary: wrong });

/* Items. */

export const key = fc.constantFrom('k1', 'k2').map((sk): Item => ({ pk: { S: partition }, sk: { S: sk } }));
const indexKeys = fc.record<Record<string, Value>>(
  {
    g: fc.oneof(
      { weight: 12, arbitrary: fc.constantFrom('g1', 'g2').map((name): Value => ({ S: `${partition}/${name}` })) },
      { weight: 1, arbitrary: fc.constantFrom<Value>({ N: '1' }, { S: '' }) },
    ),
    h: fc.oneof({ weight: 12, arbitrary: whole }, { weight: 1, arbitrary: text }),
    f: fc.constantFrom<Value>({ S: `${partition}/f` }),
  },
  { requiredKeys: [] },
);
const short = fc.constantFrom('x', 'y').map((S): Value => ({ S }));
const entry = fc.record({ i: text, k: whole, s: short }, { requiredKeys: ['k'] }).map((M): Value => ({ M }));
/** Attributes of the types that most expressions expect. Some are missing. */
const fitting = fc.record<Record<string, Value>>(
  {
    a: anyNumber,
    b: fc
      .array(fc.oneof({ weight: 4, arbitrary: entry }, leaf), { minLength: 1, maxLength: 5 })
      .map((L): Value => ({ L })),
    c: entry,
    d: set,
    e: text,
  },
  { requiredKeys: ['b', 'c'] },
);
const attribute = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const attributes = fc
  .tuple(
    fc.oneof(
      { weight: 3, arbitrary: fitting },
      { weight: 1, arbitrary: fc.dictionary(attribute, mostlyRight, { maxKeys: 4 }) },
    ),
    fc.option(indexKeys, { nil: {} }),
  )
  .map(([own, keys]): Item => ({ ...own, ...keys }));
export const item = fc.tuple(attributes, key).map(([own, keys]): Item => ({ ...own, ...keys }));

/* Expressions. */

const step = fc.oneof(
  { weight: 3, arbitrary: fc.nat(4).map((index) => `[${index}]`) },
  { weight: 3, arbitrary: fc.constantFrom('.#i', '.#k', '.s', '.#sp') },
);
const path = fc
  .tuple(
    fc.oneof({ weight: 8, arbitrary: attribute.map((name) => `#${name}`) }, { weight: 1, arbitrary: attribute }),
    fc.oneof(
      { weight: 3, arbitrary: fc.constant([]) },
      { weight: 3, arbitrary: fc.array(step, { minLength: 1, maxLength: 1 }) },
      { weight: 1, arbitrary: fc.array(step, { minLength: 2, maxLength: 3 }) },
    ),
  )
  .map(([first, steps]) => [first, ...steps].join(''));
const valueName = fc.constantFrom(':n', ':n', ':m', ':t', ':l', ':s', ':v', ':o');
const size = path.map((inside) => `size(${inside})`);
const compared = fc.oneof(
  { weight: 4, arbitrary: path },
  { weight: 4, arbitrary: valueName },
  { weight: 1, arbitrary: size },
);
const comparator = fc.constantFrom('=', '<>', '<', '<=', '>', '>=');
const test = fc.oneof(
  path.map((inside) => `attribute_exists(${inside})`),
  path.map((inside) => `attribute_not_exists(${inside})`),
  fc.tuple(path, fc.constantFrom(':n', ':n', ':t', ':v', ':l')).map(([one, other]) => `${one} = ${other}`),
  fc.tuple(compared, comparator, compared).map((parts) => parts.join(' ')),
  fc.tuple(size, comparator, fc.constantFrom(':n', ':m')).map((parts) => parts.join(' ')),
  fc.tuple(path, compared).map(([one, other]) => `contains(${one}, ${other})`),
  fc.tuple(path, fc.constantFrom(':t', ':t', ':t', ':v', '#a')).map(([one, other]) => `begins_with(${one}, ${other})`),
  fc
    .tuple(compared, fc.array(compared, { minLength: 1, maxLength: 3 }))
    .map(([one, others]) => `${one} IN (${others.join(', ')})`),
  path.map((one) => `${one} BETWEEN :n AND :m`),
  fc.tuple(compared, compared, compared).map(([one, from, to]) => `${one} BETWEEN ${from} AND ${to}`),
  fc
    .tuple(path, fc.constantFrom('S', 'N', 'SS', 'L', 'M', 'NULL', 'BOOL', 'X'))
    .map(([one, type]) => `attribute_type(${one}, :type${type})`),
);
const { condition } = fc.letrec<{ condition: string }>((tie) => ({
  condition: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    test,
    fc
      .tuple(tie('condition'), fc.constantFrom('AND', 'OR', 'and', 'or'), tie('condition'))
      .map((parts) => parts.join(' ')),
    fc
      .tuple(tie('condition'), fc.constantFrom('AND', 'OR'), tie('condition'))
      .map(([one, word, another]) => `(${one}) ${word} NOT (${another})`),
    tie('condition').map((inside) => `NOT ${inside}`),
  ),
}));

const operand = fc.oneof({ weight: 2, arbitrary: path }, { weight: 3, arbitrary: valueName });
const summand = fc.oneof(
  fc.constantFrom(':n', ':m'),
  operand,
  path.map((inside) => `if_not_exists(${inside}, :n)`),
);
const assigned = fc.oneof(
  { weight: 3, arbitrary: operand },
  { weight: 3, arbitrary: fc.tuple(summand, fc.constantFrom('+', '-'), summand).map((parts) => parts.join(' ')) },
  { weight: 2, arbitrary: fc.tuple(path, operand).map(([one, instead]) => `if_not_exists(${one}, ${instead})`) },
  { weight: 2, arbitrary: path.map((inside) => `list_append(${inside}, :l)`) },
  { weight: 1, arbitrary: path.map((inside) => `list_append(if_not_exists(${inside}, :l), :l)`) },
  { weight: 1, arbitrary: fc.tuple(operand, operand).map(([one, more]) => `list_append(${one}, ${more})`) },
);
const indexed = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom('#g = :g', '#g = :g, #h = :n', '#f = :f', '#h = if_not_exists(#h, :n)') },
  { weight: 1, arbitrary: fc.constantFrom('#h = #h + :n', '#g = :v') },
);
const setClause = fc
  .tuple(
    fc.array(
      fc.tuple(path, assigned).map(([to, from]) => `${to} = ${from}`),
      { minLength: 1, maxLength: 3 },
    ),
    fc.option(indexed, { nil: '', freq: 2 }),
  )
  .map(([own, keys]) => `SET ${[...own, keys].filter((one) => one !== '').join(', ')}`);
const listRemoval = fc
  .tuple(attribute, fc.uniqueArray(fc.nat(5), { minLength: 2, maxLength: 3 }))
  .map(([name, indexes]) => indexes.map((index) => `#${name}[${index}]`));
const removeClause = fc
  .oneof(
    { weight: 4, arbitrary: fc.array(path, { minLength: 1, maxLength: 2 }) },
    { weight: 2, arbitrary: listRemoval },
    { weight: 1, arbitrary: fc.tuple(listRemoval, path).map(([indexes, one]) => [...indexes, one]) },
    { weight: 1, arbitrary: fc.constantFrom(['#g'], ['#h'], ['#f', '#g']) },
  )
  .map((paths) => `REMOVE ${paths.join(', ')}`);
const addClause = fc
  .tuple(path, fc.constantFrom(':n', ':m', ':s', ':s', ':v'))
  .map(([to, what]) => `ADD ${to} ${what}`);
const deleteClause = fc
  .tuple(path, fc.constantFrom(':s', ':s', ':s', ':v'))
  .map(([to, what]) => `DELETE ${to} ${what}`);
const update = fc
  .tuple(
    fc.option(setClause, { nil: '', freq: 3 }),
    fc.option(removeClause, { nil: '', freq: 2 }),
    fc.option(addClause, { nil: '', freq: 2 }),
    fc.option(deleteClause, { nil: '', freq: 2 }),
  )
  .map((clauses) => clauses.filter((clause) => clause !== '').join(' '))
  .filter((expression) => expression !== '');

/*
 * Expressions that fit most items, as those of the stores do: `a` is a number, `b` a list of maps, `c` a map, `d` a set
 * and `e` a string.
 */

const place = fc.nat(4).map((index) => `#b[${index}]`);
const numberPath = fc.oneof(
  fc.constantFrom('#a', '#c.#k'),
  place.map((inside) => `${inside}.#k`),
);
const stringPath = fc.oneof(
  fc.constantFrom('#e', '#c.#i', '#c.s'),
  place.map((inside) => `${inside}.s`),
);
const number = fc.oneof(
  fc.constantFrom(':n', ':m'),
  numberPath.map((inside) => `if_not_exists(${inside}, :n)`),
  fc.constantFrom('#a', '#c.#k', '#b[0].#k'),
);
const numeric = fc.oneof(
  number,
  fc.tuple(number, fc.constantFrom(' + ', ' - '), number).map((parts) => parts.join('')),
);
/** What an update does to one attribute. No two of these are about the same one. */
const changes = fc.record(
  {
    a: fc.oneof(
      numeric.map((from) => ({ set: `#a = ${from}` })),
      fc.constantFrom({ add: '#a :n' }, { remove: '#a' }, { set: '#a = if_not_exists(#b[0], :o)' }),
    ),
    b: fc.oneof(
      fc.constantFrom(
        { set: '#b = list_append(#b, :l)' },
        { set: '#b = list_append(:l, #b)' },
        { set: '#b = list_append(if_not_exists(#b, :l), :l)' },
        { set: '#b[0].#k = #b[0].#k + :n, #b[1].#i = :t' },
        { set: '#b[9] = :v, #b[7] = :t' },
        { set: '#b[1] = #b[0]', remove: '#b[3], #b[0]' },
      ),
      fc.uniqueArray(place, { minLength: 1, maxLength: 3 }).map((places) => ({ remove: places.join(', ') })),
      place.map((at) => ({ set: `${at} = :v` })),
      place.map((at) => ({ set: `${at}.#k = :n` })),
      place.map((at) => ({ remove: `${at}.#k` })),
      place.map((at) => ({ add: `${at}.#k :n` })),
      place.map((at) => ({ add: `${at}.#sp :s` })),
    ),
    c: fc.oneof(
      numeric.map((from) => ({ set: `#c.#k = ${from}` })),
      fc.constantFrom(
        { set: '#c = if_not_exists(#b[0], :o)' },
        { set: '#c.#sp = :v, #c.#i = #e' },
        { remove: '#c.#k, #c.#i' },
        { add: '#c.#k :n' },
        { add: '#c.#sp :s', remove: '#c.#i' },
        { delete: '#c.#sp :s' },
      ),
    ),
    d: fc.constantFrom(
      { add: '#d :s' },
      { delete: '#d :s' },
      { delete: '#d :s' },
      { remove: '#d' },
      { set: '#d = :s' },
    ),
    e: fc.oneof(
      stringPath.map((from) => ({ set: `#e = if_not_exists(${from}, :t)` })),
      fc.constantFrom({ remove: '#e' }, { set: '#e = if_not_exists(#missing, :t)' }, { set: '#e = :v' }),
    ),
    index: indexed.map((set) => ({ set })),
  },
  { requiredKeys: [] },
);
type Clauses = { readonly set?: string; readonly remove?: string; readonly add?: string; readonly delete?: string };
const clause = (list: readonly Clauses[], name: keyof Clauses): string => {
  const parts = list.flatMap((one) => one[name] ?? []);
  return parts.length === 0 ? '' : `${name.toUpperCase()} ${parts.join(', ')}`;
};
const fittingUpdate = changes
  .map((each) => Object.values(each) as Clauses[])
  .map((list) => (['set', 'remove', 'add', 'delete'] as const).map((name) => clause(list, name)))
  .map((clauses) => clauses.filter((one) => one !== '').join(' '))
  .filter((expression) => expression !== '');
const fittingTest = fc.oneof(
  fc.tuple(numberPath, comparator, fc.constantFrom(':n', ':m', '#h')).map((parts) => parts.join(' ')),
  fc.tuple(stringPath, comparator, fc.constantFrom(':t', '#missing')).map((parts) => parts.join(' ')),
  fc.tuple(fc.constantFrom('#b', '#c', '#d', '#e'), comparator).map(([one, sign]) => `size(${one}) ${sign} :n`),
  fc.constantFrom(
    ...[
      'attribute_exists(#b[0])',
      'attribute_not_exists(#b[2])',
      'attribute_exists(#c.#k)',
      'attribute_not_exists(#d)',
    ],
    ...[
      'contains(#d, :x)',
      'NOT contains(#d, :x)',
      'contains(#e, :x)',
      'contains(#b, :t)',
      ':t IN (#e, #c.#i, #missing)',
    ],
    ...['NOT (:t IN (#missing))', 'begins_with(#e, :x)', '#b[0].#k BETWEEN #missing AND :m', '#a <> #c.#k'],
    ...['#missing <> :n', '#missing < :n', '#d = :s', '#b = :l', '#c <> #b[0]', 'attribute_type(#d, :typeSS)'],
  ),
);
const fittingCondition = fc
  .array(fittingTest, { minLength: 1, maxLength: 4 })
  .chain((tests) =>
    fc.constantFrom(
      tests.join(' AND '),
      tests.join(' OR '),
      `(${tests.join(' OR ')}) AND NOT (${tests.join(' AND ')})`,
    ),
  );

export const anyUpdate = fc.oneof({ weight: 4, arbitrary: fittingUpdate }, { weight: 1, arbitrary: update });
export const anyCondition = fc.oneof({ weight: 2, arbitrary: fittingCondition }, { weight: 1, arbitrary: condition });

export const values = fc
  .record({ n: anyNumber, m: anyNumber, t: text, l: list(small), s: set, v: mostlyRight, o: other })
  .map(
    (given): Record<string, Value> => ({
      ...Object.fromEntries(Object.entries(given).map(([name, one]) => [`:${name}`, one])),
      ':g': { S: `${partition}/g1` },
      ':f': { S: `${partition}/f` },
      ':p': { S: partition },
      ':x': { S: 'l1' },
      ...Object.fromEntries(['S', 'N', 'SS', 'L', 'M', 'NULL', 'BOOL', 'X'].map((S) => [`:type${S}`, { S }])),
    }),
  );
