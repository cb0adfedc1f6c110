import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fenceDynamoDB } from '../../src/guards/dynamodb.ts';

const anyCase = (word: string) =>
  fc
    .array(fc.boolean(), { minLength: word.length, maxLength: word.length })
    .map((upper) => [...word].map((c, i) => (upper[i] ? c.toUpperCase() : c)).join(''));
const path = fc.constantFrom(
  'a',
  '#set',
  'setting',
  'sunset',
  '#remove',
  'list[0]',
  'a.#set',
  '#add.deleted',
  'set_at',
);
const value = fc.constantFrom(':set', ':v', ':remove');
const actions = {
  set: fc.oneof(
    fc.tuple(path, value).map(([p, v]) => `${p} = ${v}`),
    fc.tuple(path, path, value).map(([p, q, v]) => `${p}=if_not_exists(${q}, ${v})`),
    fc.tuple(path, value).map(([p, v]) => `${p} = list_append(${p}, ${v})`),
  ),
  remove: path,
  add: fc.tuple(path, value).map((words) => words.join(' ')),
  delete: fc.tuple(path, value).map((words) => words.join(' ')),
};
const space = fc.constantFrom(' ', '\n', '  ', '\t');

const clause = (keyword: keyof typeof actions) =>
  fc
    .tuple(anyCase(keyword), space, fc.array(actions[keyword], { minLength: 1, maxLength: 3 }))
    .map(([word, gap, list]) => ({
      keyword,
      actions: list,
      text: word + gap + list.join(', '),
    }));
const expression = fc
  .shuffledSubarray(Object.keys(actions) as (keyof typeof actions)[])
  .chain((keywords) => fc.tuple(...keywords.map(clause)));

describe('fenceDynamoDB on any update expression', () => {
  it('adds one assignment to its SET clause, or a SET clause, and changes nothing else', () => {
    fc.assert(
      fc.property(expression, space, (clauses, gap) => {
        const UpdateExpression = clauses.map(({ text }) => text).join(gap);
        const { Update } = fenceDynamoDB({ Update: { TableName: 't', Key: {}, UpdateExpression } }, { fence: 34 });
        const fenced = Update.UpdateExpression;
        const assignment = '#holdfastFence = :holdfastFence';
        const hasSet = clauses.some(({ keyword }) => keyword === 'set');
        const expected = hasSet
          ? clauses
              .map(({ keyword, text }) =>
                keyword === 'set' ? `${text.slice(0, 3)} ${assignment},${text.slice(3)}` : text,
              )
              .join(gap)
          : [`SET ${assignment}`, UpdateExpression].filter(Boolean).join(' ');
        expect(fenced).toBe(expected);
      }),
    );
  });
});
