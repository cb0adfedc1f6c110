import { PGlite } from '@electric-sql/pglite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  executeFenced,
  fencedUpdate,
  fencedUpsert,
  floorsTable,
  type RunSql,
  type SqlStatement,
} from '../../../src/guards/sql.ts';
import { describeSqlGuards } from './sql-guards.ts';

const dialect = 'postgres';

describe('Postgres', () => {
  let db: PGlite;

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

  describeSqlGuards(
    {
      dialect,
      table: ['shop', 'orders'],
      next: () => run,
      transact: (work) => db.transaction((transaction) => work(runOn(transaction))),
    },
    { runs: 20 },
  );

  describe('fencedUpdate', () => {
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
