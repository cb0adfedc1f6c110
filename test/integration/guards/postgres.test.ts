import { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  executeFenced,
  fencedUpdate,
  fencedUpsert,
  floorsTable,
  type RunSql,
  raiseFloor,
  type SqlStatement,
} from '../../../src/guards/sql.ts';
import { describePauseStory } from './pause-story.ts';

const dialect = 'postgres';

describe('Postgres', () => {
  let db: PGlite;
  let resources = 0;
  const freshId = () => `order-${++resources}`;

  const runOn =
    (on: Pick<PGlite, 'query'>): RunSql =>
    async ({ text, values }: SqlStatement) => {
      const { affectedRows, rows } = await on.query<Record<string, unknown>>(text, [...values]);
      return { affectedRows: affectedRows ?? 0, rows };
    };
  const run: RunSql = (statement) => runOn(db)(statement);

  beforeAll(async () => {
    db = await PGlite.create();
    await db.exec(
      'CREATE SCHEMA shop; CREATE TABLE shop.orders (id TEXT PRIMARY KEY, state TEXT, fence BIGINT NOT NULL DEFAULT 0)',
    );
    await db.exec(floorsTable(dialect));
  });
  afterAll(() => db.close());

  const table = ['shop', 'orders'];
  const stored = async (id: string) => {
    const { rows } = await run({ text: 'SELECT state, fence FROM shop.orders WHERE id = $1', values: [id] });
    return { value: (rows[0]?.state as string) ?? null, floor: rows[0] ? Number(rows[0].fence) : null };
  };

  describePauseStory(
    'fencedUpsert',
    async () => {
      const id = freshId();
      return {
        write: (fence, state) =>
          executeFenced(run, fencedUpsert({ dialect, table, key: { id }, set: { state }, fence })),
        read: () => stored(id),
      };
    },
    { runs: 20 },
  );

  describePauseStory(
    'fencedUpdate',
    async () => {
      const id = freshId();
      await run({ text: 'INSERT INTO shop.orders (id) VALUES ($1)', values: [id] });
      return {
        write: (fence, state) =>
          executeFenced(run, fencedUpdate({ dialect, table, key: { id }, set: { state }, fence })),
        read: () => stored(id),
      };
    },
    { runs: 20 },
  );

  describePauseStory(
    'raiseFloor in a transaction',
    async () => {
      const id = freshId();
      await run({ text: 'INSERT INTO shop.orders (id) VALUES ($1)', values: [id] });
      return {
        write: (fence, state) =>
          db.transaction(async (transaction) => {
            const outcome = await executeFenced(runOn(transaction), raiseFloor({ dialect, resource: id, fence }));
            if (outcome.kind === 'written')
              await transaction.query('UPDATE shop.orders SET state = $1 WHERE id = $2', [state, id]);
            return outcome;
          }),
        async read() {
          const { rows } = await run(raiseFloor({ dialect, resource: id, fence: 1 }).floor);
          return { value: (await stored(id)).value, floor: rows[0] ? Number(rows[0].floor) : null };
        },
      };
    },
    { runs: 20 },
  );

  describe('fencedUpdate', () => {
    it('distinguishes a missing row from a stale fence', async () => {
      const id = freshId();
      const update = fencedUpdate({ dialect, table, key: { id }, set: { state: 'x' }, fence: 33 });
      expect(await executeFenced(run, update)).toEqual({ kind: 'missing' });
      await executeFenced(run, fencedUpsert({ dialect, table, key: { id }, set: { state: 'x' }, fence: 34 }));
      expect(await executeFenced(run, update)).toEqual({ kind: 'stale', fence: 33, floor: 34 });
    });

    it('reads and writes columns and tables with any name', async () => {
      const odd = 'a "b"; DROP TABLE x --';
      await db.exec(
        `CREATE TABLE "a ""b""; DROP TABLE x --" ("select" INT, "user" TEXT, "a ""b""; DROP TABLE x --" BIGINT NOT NULL, PRIMARY KEY ("select", "user"))`,
      );
      const row = { dialect, table: odd, column: odd, key: { select: 1, user: 'u' } } as const;
      expect(await executeFenced(run, fencedUpsert({ ...row, set: {}, fence: 34 }))).toEqual({ kind: 'written' });
      expect(await executeFenced(run, fencedUpdate({ ...row, set: {}, fence: 33 }))).toEqual({
        kind: 'stale',
        fence: 33,
        floor: 34,
      });
    });
  });
});
