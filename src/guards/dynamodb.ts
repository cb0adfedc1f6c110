/**
 * The guard for items in a user's own DynamoDB table. The floor is an attribute of the item. Each write checks it in
 * its condition and raises it in its expression. So check and write are one atomic step, at no extra cost.
 */
import { checkFence, readFloor, type Stale } from './fence.ts';

type Names = Record<string, string>;

/**
 * The fields of a condition that all four operations share. Values are unknown, so that the inputs of either client
 * fit.
 */
interface Conditional {
  TableName: string | undefined;
  ConditionExpression?: string | undefined;
  ExpressionAttributeNames?: Names | undefined;
  ExpressionAttributeValues?: Record<string, unknown> | undefined;
  ReturnValuesOnConditionCheckFailure?: 'ALL_OLD' | 'NONE' | undefined;
}

interface PutInput extends Conditional {
  Item: Record<string, unknown> | undefined;
}

interface KeyedInput extends Conditional {
  Key: Record<string, unknown> | undefined;
}

interface UpdateInput extends KeyedInput {
  UpdateExpression?: string | undefined;
}

/**
 * One write, named as `TransactWriteItems` names it. The same shape serves the single operations: pass
 * `fenceDynamoDB({ Put: input }, …).Put` to `PutCommand` or `PutItemCommand`.
 *
 * @example
 * ```ts
 * const write: DynamoDBWrite = { Update: { TableName: 'orders', Key: { id }, UpdateExpression: 'SET paid = :yes', … } };
 * ```
 */
export interface DynamoDBWrite {
  Put?: PutInput | undefined;
  Update?: UpdateInput | undefined;
  Delete?: KeyedInput | undefined;
  ConditionCheck?: KeyedInput | undefined;
}

/**
 * How a write is fenced.
 *
 * @example
 * ```ts
 * const options: DynamoDBFenceOptions = { fence: grant.fence, attribute: 'lockFence', marshalled: true };
 * ```
 */
export interface DynamoDBFenceOptions {
  /** The fence of the grant under which this write is made. */
  readonly fence: number;
  /** The top-level attribute that keeps the floor. Default `fence`: the word that a grant uses. */
  readonly attribute?: string;
  /**
   * True for `@aws-sdk/client-dynamodb`, whose values look like `{ N: '1' }`. Default false: plain values, as
   * `lib-dynamodb` takes.
   */
  readonly marshalled?: boolean;
}

/** The same word as in a grant. */
const defaultAttribute = 'fence';

/**
 * Merges the fence into a Put, Update, Delete or ConditionCheck and leaves everything else as it was: the caller's own
 * condition is kept (both must hold), as are all names, values and clauses. The input is not modified.
 *
 * - **Put, Update** check the floor and raise it.
 * - **Delete** checks the floor, but the floor is deleted with the item: a late writer could then create the item
 *   again. If that matters, use {@link tombstoneDynamoDB}.
 * - **ConditionCheck** checks the floor and does not raise it, because DynamoDB does not let it write.
 *
 * A refused write throws `ConditionalCheckFailedException`. {@link judgeDynamoDBError} says what it means.
 *
 * @example
 * ```ts
 * const { Update } = fenceDynamoDB(
 *   { Update: { TableName: 'orders', Key: { id }, UpdateExpression: 'REMOVE draft', ConditionExpression: 'attribute_exists(id)' } },
 *   { fence: grant.fence },
 * );
 * await documentClient.send(new UpdateCommand(Update));
 * ```
 */
export function fenceDynamoDB<W extends DynamoDBWrite>(write: W, options: DynamoDBFenceOptions): W {
  checkFence(options.fence);
  const { Put, Update, Delete, ConditionCheck } = write;
  const named = [Put, Update, Delete, ConditionCheck].filter((input) => input !== undefined);
  if (named.length !== 1) {
    throw new TypeError(
      `Expected exactly one of Put, Update, Delete and ConditionCheck; got ${Object.keys(write).join(', ') || 'none'}.`,
    );
  }
  return { ...write, ...fenceOperation(write, options) };
}

function fenceOperation(
  { Put, Update, Delete, ConditionCheck }: DynamoDBWrite,
  options: DynamoDBFenceOptions,
): DynamoDBWrite {
  if (Put) return { Put: { ...fenceCondition(Put, options).input, Item: raisedItem(Put, options) } };
  if (Update) return { Update: fenceUpdate(Update, options) };
  if (Delete) return { Delete: fenceCondition(Delete, options).input };
  return ConditionCheck ? { ConditionCheck: fenceCondition(ConditionCheck, options).input } : {};
}

/**
 * How a tombstone is marked.
 *
 * @example
 * ```ts
 * const options: TombstoneOptions = { fence: grant.fence, marker: 'cancelled' };
 * ```
 */
export interface TombstoneOptions extends DynamoDBFenceOptions {
  /** The attribute that is set to true on the tombstone. Default `deleted`. */
  readonly marker?: string;
}

/**
 * Deletes an item and keeps its floor: replaces the item by its key, its floor and a marker, in one Put. Readers treat
 * a marked item as absent. A condition for "does not exist yet" becomes
 * `attribute_not_exists(id) OR attribute_exists(deleted)`. Remove tombstones, if ever, only when no holder from before
 * the deletion can still be running.
 *
 * @example
 * ```ts
 * const { Put } = tombstoneDynamoDB({ TableName: 'orders', Key: { id } }, { fence: grant.fence });
 * await documentClient.send(new PutCommand(Put));
 * ```
 */
export function tombstoneDynamoDB<D extends KeyedInput>(
  input: D,
  options: TombstoneOptions,
): { Put: Omit<D, 'Key'> & { Item: NonNullable<D['Key']> } } {
  const { Key, ...rest } = input;
  const marker = options.marker ?? 'deleted';
  if (Object.hasOwn(Key ?? {}, marker))
    throw new TypeError(`The marker ${marker} is also a key attribute of the item.`);
  const Item = { ...Key, [marker]: options.marshalled ? { BOOL: true } : true };
  return fenceDynamoDB({ Put: { ...rest, Item } }, options) as unknown as ReturnType<typeof tombstoneDynamoDB<D>>;
}

/**
 * What an error of a fenced write means.
 *
 * - `stale`: the floor is above the fence. Stop: a later holder has written.
 * - `condition`: the caller's own condition failed; the fence was good.
 * - `conflict`: another transaction changed the same items at that time. Nothing was written; try again.
 * - `unrelated`: none of these. Throw the error again.
 *
 * @example
 * ```ts
 * const refusal: DynamoDBRefusal = judgeDynamoDBError(error, { fence: grant.fence });
 * ```
 */
export type DynamoDBRefusal = Stale | { readonly kind: 'condition' | 'conflict' | 'unrelated' };

/**
 * Tells why a fenced write failed. {@link fenceDynamoDB} asks DynamoDB to return the item as it was when the condition
 * failed. So the answer needs no second read and always fits the refusal. If both the fence and the caller's condition
 * failed, the answer is `stale`, because that is final.
 *
 * If the items of a transaction carry different fences, give the `index` of the item to judge. Without it, every
 * refused item is judged by the same fence.
 *
 * @example
 * ```ts
 * try {
 *   await documentClient.send(new PutCommand(Put));
 * } catch (error) {
 *   const refusal = judgeDynamoDBError(error, { fence: grant.fence });
 *   if (refusal.kind === 'unrelated') throw error;
 *   throwIfStale(refusal);
 * }
 * ```
 */
export function judgeDynamoDBError(
  error: unknown,
  options: Pick<DynamoDBFenceOptions, 'fence' | 'attribute'> & { readonly index?: number },
): DynamoDBRefusal {
  const fence = checkFence(options.fence);
  const refusals = refusedConditions(error);
  if (refusals === null) return { kind: 'unrelated' };
  const judged = options.index === undefined ? refusals : refusals.slice(options.index, options.index + 1);

  const failed = judged.filter((refusal) => refusal?.Code === 'ConditionalCheckFailed');
  // A missing item has no floor, so a condition that failed without an item was the caller's.
  const floors = failed.flatMap(({ Item }) => storedFloor(Item, options.attribute ?? defaultAttribute) ?? []);
  const floor = Math.max(0, ...floors);
  if (floor > fence) return { kind: 'stale', fence, floor };
  if (failed.length > 0) return { kind: 'condition' };
  return { kind: judged.some((refusal) => refusal?.Code === 'TransactionConflict') ? 'conflict' : 'unrelated' };
}

interface CancellationReason {
  readonly Code?: string | undefined;
  readonly Item?: Record<string, unknown> | undefined;
}

/**
 * The failed conditions of a single write or of a transaction, in one shape; null when the error is of another kind.
 */
function refusedConditions(error: unknown): readonly CancellationReason[] | null {
  if (typeof error !== 'object' || error === null) return null;
  const { name, Item, CancellationReasons } = error as Record<string, unknown>;
  if (name === 'ConditionalCheckFailedException') {
    return [{ Code: 'ConditionalCheckFailed', Item: Item as CancellationReason['Item'] }];
  }
  if (name === 'TransactionConflictException') return [{ Code: 'TransactionConflict' }];
  if (name !== 'TransactionCanceledException' || !Array.isArray(CancellationReasons)) return null;
  return CancellationReasons as CancellationReason[];
}

/** Errors carry marshalled items, even with lib-dynamodb, whose `wrapNumbers` adds a third form. All three are read. */
function storedFloor(item: Record<string, unknown> | undefined, attribute: string): number | undefined {
  const stored = item?.[attribute];
  if (stored === undefined) return undefined;
  const { N, value } = (typeof stored === 'object' && stored !== null ? stored : {}) as Record<string, unknown>;
  return readFloor(N ?? value ?? stored, `attribute "${attribute}"`);
}

function raisedItem(input: PutInput, options: DynamoDBFenceOptions): Record<string, unknown> {
  // If an item was read, changed and put back, it still has the floor that was read. So a fence in it is replaced, not
  // refused.
  return { ...input.Item, [options.attribute ?? defaultAttribute]: fenceValue(options) };
}

function fenceUpdate<I extends UpdateInput>(input: I, options: DynamoDBFenceOptions): I {
  const { input: conditional, name, value } = fenceCondition(input, options);
  return { ...conditional, UpdateExpression: withAssignment(input.UpdateExpression ?? '', `${name} = ${value}`) };
}

/**
 * The keyword SET itself: not a placeholder (#set, :set), not part of a word (offset), not a step of a path (a.set).
 * SET is a reserved word, so it can't be a plain attribute name. DynamoDB allows the clause once, at any position, in
 * upper or lower case.
 */
const setKeyword = /(?<![\w#:.-])SET(?![\w-])/i;

function withAssignment(expression: string, assignment: string): string {
  const set = setKeyword.exec(expression);
  if (!set) return `SET ${assignment} ${expression}`.trimEnd();
  const clause = set.index + set[0].length;
  return `${expression.slice(0, clause)} ${assignment},${expression.slice(clause)}`;
}

function fenceCondition<I extends Conditional>(input: I, options: DynamoDBFenceOptions) {
  const name = freeAlias('#holdfastFence', input.ExpressionAttributeNames);
  const value = freeAlias(':holdfastFence', input.ExpressionAttributeValues);
  // No later holder has written: the floor is absent or at most this fence. The engine checks it in the step that
  // writes.
  const unfenced = `(attribute_not_exists(${name}) OR ${name} <= ${value})`;
  const own = input.ConditionExpression;
  return {
    name,
    value,
    input: {
      ...input,
      ConditionExpression: own ? `${enclosed(own)} AND ${unfenced}` : unfenced,
      ExpressionAttributeNames: { ...input.ExpressionAttributeNames, [name]: options.attribute ?? defaultAttribute },
      ExpressionAttributeValues: { ...input.ExpressionAttributeValues, [value]: fenceValue(options) },
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
    },
  };
}

/**
 * Without parentheses a caller's "a OR b" would let a stale write pass. But DynamoDB refuses doubled parentheses as
 * redundant, so an expression that already has one pair around it stays as it is. Expressions contain no literals, so
 * every parenthesis counts.
 */
function enclosed(expression: string): string {
  const trimmed = expression.trim();
  let depth = 0;
  for (let at = 0; at < trimmed.length; at++) {
    if (trimmed[at] === '(') depth++;
    if (trimmed[at] === ')') depth--;
    if (depth === 0 && at < trimmed.length - 1) return `(${trimmed})`;
  }
  return trimmed;
}

/** Adds a number if the alias is taken. So one write can be fenced twice, by two locks and two attributes. */
function freeAlias(alias: string, taken: Record<string, unknown> | undefined): string {
  let free = alias;
  for (let n = 2; taken && Object.hasOwn(taken, free); n++) free = `${alias}${n}`;
  return free;
}

function fenceValue({ fence, marshalled }: DynamoDBFenceOptions): number | { N: string } {
  return marshalled ? { N: String(fence) } : fence;
}
