/** Decides writes: what an item becomes, or that the condition refuses it. Nothing is written here. */
import { holds } from './conditions.ts';
import { type Parsed, parsedCondition, parsedUpdate } from './expressions.ts';
import { type Keyed, type Meaning, meaningOf, type Put, scopeOf, type UpdateRequest, type Write } from './requests.ts';
import type { Table } from './table.ts';
import { checkUpdate, updated } from './updates.ts';
import { type Item, storedItem } from './values.ts';

export type WriteOperation = 'PutItem' | 'UpdateItem' | 'DeleteItem' | 'ConditionCheck';

/** A write that is decided but not yet made. */
export interface Decided {
  readonly operation: WriteOperation;
  readonly table: Table;
  readonly key: Item;
  readonly before: Item | undefined;
  readonly after: Item | undefined;
  readonly isAllowed: boolean;
}

/** A write that is right for some item. `decide` reads the item, and throws if the write is wrong for it. */
export interface Prepared {
  readonly table: Table;
  readonly key: Item;
  decide(): Decided;
}

type Condition = Parsed<Parameters<typeof holds>[0]>;

const conditionOf = ({ ConditionExpression: text }: Write): Condition | undefined =>
  text === undefined ? undefined : parsedCondition(text);

const isAllowed = (condition: Condition | undefined, meaning: Meaning, item: Item | undefined): boolean =>
  condition === undefined || holds(condition.tree, scopeOf(meaning, item));

export function preparePut(table: Table, input: Put): Prepared {
  const condition = conditionOf(input);
  const meaning = meaningOf(input, condition);
  const item = storedItem(input.Item);
  table.checkItemKey(item);
  return {
    table,
    key: item,
    decide: () => {
      table.checkItem(item);
      const before = table.get(item);
      const allowed = isAllowed(condition, meaning, before);
      return { operation: 'PutItem', table, key: item, before, after: item, isAllowed: allowed };
    },
  };
}

export function prepareUpdate(table: Table, input: UpdateRequest): Prepared {
  const { Key: key, UpdateExpression: text } = input;
  const condition = conditionOf(input);
  const update = text === undefined ? undefined : parsedUpdate(text);
  const meaning = meaningOf(input, condition, update);
  table.checkKey(key);
  if (update !== undefined) checkUpdate(update.tree, meaning.names, table.keyNames);
  return {
    table,
    key,
    decide: () => {
      const before = table.get(key);
      const decided = { operation: 'UpdateItem' as const, table, key, before };
      if (!isAllowed(condition, meaning, before)) return { ...decided, after: before, isAllowed: false };
      const from = before ?? key;
      const after = update === undefined ? from : updated(update.tree, scopeOf(meaning, from));
      table.checkItem(after);
      return { ...decided, after, isAllowed: true };
    },
  };
}

export function prepareDelete(table: Table, input: Keyed): Prepared {
  const { Key: key } = input;
  const condition = conditionOf(input);
  const meaning = meaningOf(input, condition);
  table.checkKey(key);
  return {
    table,
    key,
    decide: () => {
      const before = table.get(key);
      const allowed = isAllowed(condition, meaning, before);
      return { operation: 'DeleteItem', table, key, before, after: undefined, isAllowed: allowed };
    },
  };
}

/** A condition of a transaction, which writes nothing. */
export function prepareCheck(table: Table, input: Keyed): Prepared {
  const prepared = prepareDelete(table, input);
  return {
    ...prepared,
    decide: () => {
      const decided = prepared.decide();
      return { ...decided, operation: 'ConditionCheck', after: decided.before };
    },
  };
}
