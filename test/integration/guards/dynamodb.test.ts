import { CreateTableCommand, GetItemCommand, PutItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import {
  DeleteCommand,
  DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  TransactWriteCommand,
  UpdateCommand,
  type UpdateCommandInput,
} from '@aws-sdk/lib-dynamodb';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { fenceDynamoDB, judgeDynamoDBError, tombstoneDynamoDB } from '../../../src/guards/dynamodb.ts';
import { engineClient } from '../../support/engine.ts';
import { describePauseStory } from './pause-story.ts';

describe('DynamoDB', () => {
  // A guard is for the user's own client and table. What these repeat is not Holdfast's matter.
  const client = engineClient(inject('engine').behind);
  const documents = DynamoDBDocumentClient.from(client);
  const TableName = `guards-${crypto.randomUUID()}`;
  let resources = 0;
  const freshKey = () => ({ id: `order-${++resources}` });

  beforeAll(async () => {
    await client.send(
      new CreateTableCommand({
        TableName,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
        KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
      }),
    );
  });

  const item = async (Key: { id: string }) =>
    (await documents.send(new GetCommand({ TableName, Key, ConsistentRead: true }))).Item;
  const stored = async (Key: { id: string }) => {
    const found = await item(Key);
    return { value: found?.state ?? null, floor: found?.fence ?? null };
  };

  /**
   * Sends a fenced write and returns its outcome as a value. After a conflict of transactions it sends the write again.
   */
  const outcomeOf = async (send: () => Promise<unknown>, fence: number) => {
    for (let attempt = 1; attempt <= 50; attempt++) {
      try {
        await send();
        return { kind: 'written' } as const;
      } catch (error) {
        const refusal = judgeDynamoDBError(error, { fence });
        if (refusal.kind === 'unrelated') throw error;
        if (refusal.kind !== 'conflict') return refusal;
      }
    }
    throw new Error('fifty conflicts in a row');
  };

  /** The same story with each client and each kind of write. `state` is a reserved word, so callers use an alias. */
  const setState = {
    UpdateExpression: 'SET #state = :state',
    ExpressionAttributeNames: { '#state': 'state' },
  };
  const writes = {
    'Put by lib-dynamodb': (Key: { id: string }, fence: number, state: string) =>
      documents.send(new PutCommand(fenceDynamoDB({ Put: { TableName, Item: { ...Key, state } } }, { fence }).Put)),
    'Put by client-dynamodb': ({ id }: { id: string }, fence: number, state: string) => {
      const Item = { id: { S: id }, state: { S: state } };
      return client.send(
        new PutItemCommand(fenceDynamoDB({ Put: { TableName, Item } }, { fence, marshalled: true }).Put),
      );
    },
    'Update by lib-dynamodb': (Key: { id: string }, fence: number, state: string) => {
      const Update = { TableName, Key, ...setState, ExpressionAttributeValues: { ':state': state } };
      return documents.send(new UpdateCommand(fenceDynamoDB({ Update }, { fence }).Update));
    },
    'Update by client-dynamodb': ({ id }: { id: string }, fence: number, state: string) => {
      const Update = {
        TableName,
        Key: { id: { S: id } },
        ...setState,
        ExpressionAttributeValues: { ':state': { S: state } },
      };
      return client.send(new UpdateItemCommand(fenceDynamoDB({ Update }, { fence, marshalled: true }).Update));
    },
    'an Update in a transaction': (Key: { id: string }, fence: number, state: string) => {
      const Update = { TableName, Key, ...setState, ExpressionAttributeValues: { ':state': state } };
      const beside = { Put: { TableName, Item: { id: `${Key.id}/log/${fence}` } } };
      return documents.send(
        new TransactWriteCommand({ TransactItems: [beside, fenceDynamoDB({ Update }, { fence })] }),
      );
    },
  };
  for (const [name, write] of Object.entries(writes)) {
    describePauseStory(
      name,
      async () => {
        const Key = freshKey();
        return { write: (fence, value) => outcomeOf(() => write(Key, fence, value), fence), read: () => stored(Key) };
      },
      { runs: 8 },
    );
  }

  describe('fenceDynamoDB', () => {
    const update = async (Key: { id: string }, fence: number, input: Partial<UpdateCommandInput>) =>
      outcomeOf(
        () =>
          documents.send(new UpdateCommand(fenceDynamoDB({ Update: { TableName, Key, ...input } }, { fence }).Update)),
        fence,
      );

    it.each([
      'SET a = :one',
      'set a = :one',
      'REMOVE b SET a = :one',
      'ADD n :one SeT #set = :one, a = if_not_exists(#set, :one)',
      'REMOVE #set, sunset, setting',
      'ADD n :one',
      'DELETE tags :tags SET a=:one REMOVE b',
      'SET#set=:one',
      ' \n SET\n  a = :one',
    ])('merges the floor into "%s"', async (UpdateExpression) => {
      const Key = freshKey();
      const uses = (word: string) => UpdateExpression.includes(word);
      const outcome = await update(Key, 33, {
        UpdateExpression,
        ...(uses('#set') && { ExpressionAttributeNames: { '#set': 'set' } }),
        ExpressionAttributeValues: {
          ...(uses(':one') && { ':one': 1 }),
          ...(uses(':tags') && { ':tags': new Set(['x']) }),
        },
      });
      expect(outcome).toEqual({ kind: 'written' });
      const written = await item(Key);
      expect(written?.fence).toBe(33);
      if (uses('a = :one') || uses('a=:one')) expect(written?.a).toBe(1);
      if (uses('ADD')) expect(written?.n).toBe(1);
    });

    it('raises the floor by an update that does nothing else', async () => {
      const Key = freshKey();
      expect(await update(Key, 33, {})).toEqual({ kind: 'written' });
      expect(await stored(Key)).toEqual({ value: null, floor: 33 });
    });

    it("keeps the caller's OR from letting a stale write pass", async () => {
      const Key = freshKey();
      await update(Key, 34, {});
      expect(await update(Key, 33, { ConditionExpression: 'attribute_exists(id) OR attribute_exists(paid)' })).toEqual({
        kind: 'stale',
        fence: 33,
        floor: 34,
      });
    });

    it.each(['(id <> :x)', ' (id <> :x OR id = :x) ', '(id <> :x) OR (id = :x)', '(NOT (id = :x)) AND size(id) > :n'])(
      'joins the condition "%s" by parentheses that the engine accepts',
      async (ConditionExpression) => {
        const Key = freshKey();
        const condition = {
          ConditionExpression,
          ExpressionAttributeValues: { ':x': 'x', ...(ConditionExpression.includes(':n') && { ':n': 0 }) },
        };
        await update(Key, 34, {});
        expect(await update(Key, 34, condition)).toEqual({ kind: 'written' });
        expect(await update(Key, 33, condition)).toEqual({ kind: 'stale', fence: 33, floor: 34 });
      },
    );

    it("distinguishes the caller's own failed condition from a stale fence", async () => {
      const Key = freshKey();
      const ConditionExpression = 'attribute_not_exists(id)';
      expect(await update(Key, 33, { ConditionExpression })).toEqual({ kind: 'written' });
      expect(await update(Key, 33, { ConditionExpression })).toEqual({ kind: 'condition' });
      expect(await update(Key, 32, { ConditionExpression })).toEqual({ kind: 'stale', fence: 32, floor: 33 });
      expect(await update(freshKey(), 33, { ConditionExpression: 'attribute_exists(id)' })).toEqual({
        kind: 'condition',
      });
    });

    it('is refused by the engine if the update also changes the floor', async () => {
      const touching = { UpdateExpression: 'REMOVE fence' };
      await expect(update(freshKey(), 33, touching)).rejects.toThrow(/overlap/);
    });

    it('fences one write by two locks', async () => {
      const Key = freshKey();
      const put = (row: number, table: number) => {
        const once = fenceDynamoDB({ Put: { TableName, Item: { ...Key } } }, { fence: row, attribute: 'rowFence' });
        return documents.send(new PutCommand(fenceDynamoDB(once, { fence: table, attribute: 'table.fence' }).Put));
      };
      await put(33, 70);
      expect(await item(Key)).toEqual({ ...Key, rowFence: 33, 'table.fence': 70 });
      const refused = await put(33, 69).catch((error) => error);
      expect(judgeDynamoDBError(refused, { fence: 33, attribute: 'rowFence' })).toEqual({ kind: 'condition' });
      expect(judgeDynamoDBError(refused, { fence: 69, attribute: 'table.fence' })).toEqual({
        kind: 'stale',
        fence: 69,
        floor: 70,
      });
      await expect(put(32, 70)).rejects.toThrow();
    });

    it('checks a floor in a transaction without raising it, and names the item that refused', async () => {
      const [guarded, other] = [freshKey(), freshKey()];
      await update(guarded, 34, {});
      const write = (fence: number) => {
        const check = { ConditionCheck: { TableName, Key: guarded, ConditionExpression: 'attribute_exists(id)' } };
        const TransactItems = [{ Put: { TableName, Item: other } }, fenceDynamoDB(check, { fence })];
        return documents.send(new TransactWriteCommand({ TransactItems }));
      };
      const refused = await write(33).catch((error) => error);
      expect(judgeDynamoDBError(refused, { fence: 33 })).toEqual({ kind: 'stale', fence: 33, floor: 34 });
      expect(judgeDynamoDBError(refused, { fence: 33, index: 1 })).toEqual({ kind: 'stale', fence: 33, floor: 34 });
      expect(judgeDynamoDBError(refused, { fence: 33, index: 0 })).toEqual({ kind: 'unrelated' });
      expect(await item(other)).toBeUndefined();
      await write(35);
      expect(await item(other)).toEqual(other);
      expect((await stored(guarded)).floor).toBe(34);
    });

    it('refuses a stale delete', async () => {
      const Key = freshKey();
      await update(Key, 34, {});
      const remove = (fence: number) =>
        documents.send(new DeleteCommand(fenceDynamoDB({ Delete: { TableName, Key } }, { fence }).Delete));
      expect(await outcomeOf(() => remove(33), 33)).toEqual({ kind: 'stale', fence: 33, floor: 34 });
      expect(await outcomeOf(() => remove(34), 34)).toEqual({ kind: 'written' });
      expect(await item(Key)).toBeUndefined();
    });

    it("calls an engine's other errors unrelated", async () => {
      const error = await client
        .send(new GetItemCommand({ TableName: 'nowhere', Key: { id: { S: 'x' } } }))
        .catch((e) => e);
      expect(judgeDynamoDBError(error, { fence: 33 })).toEqual({ kind: 'unrelated' });
    });
  });

  describe('tombstoneDynamoDB', () => {
    it('empties the item and keeps its floor, so that a late writer stays refused', async () => {
      const Key = freshKey();
      const put = (fence: number) =>
        documents.send(
          new PutCommand(fenceDynamoDB({ Put: { TableName, Item: { ...Key, state: 'x' } } }, { fence }).Put),
        );
      await put(33);
      await documents.send(new PutCommand(tombstoneDynamoDB({ TableName, Key }, { fence: 34 }).Put));
      expect(await item(Key)).toEqual({ ...Key, deleted: true, fence: 34 });
      expect(await outcomeOf(() => put(33), 33)).toEqual({ kind: 'stale', fence: 33, floor: 34 });
      await put(35);
      expect(await item(Key)).toEqual({ ...Key, state: 'x', fence: 35 });
    });

    it('writes marshalled tombstones too', async () => {
      const { id } = freshKey();
      const { Put } = tombstoneDynamoDB(
        { TableName, Key: { id: { S: id } } },
        { fence: 34, marshalled: true, marker: 'gone' },
      );
      await client.send(new PutItemCommand(Put));
      expect(await item({ id })).toEqual({ id, gone: true, fence: 34 });
    });
  });
});
