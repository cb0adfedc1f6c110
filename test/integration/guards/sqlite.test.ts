import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, describe, expect, it } from 'vitest';
import { executeFenced, floorsTable, type RunSql, raiseFloor } from '../../../src/guards/sql.ts';
import { describeSqlGuards, freshId } from './sql-guards.ts';

const dialect = 'sqlite';

describe('SQLite', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'));
  // For SQLite's locks, two connections to one file are like two processes.
  const open = () => new DatabaseSync(join(folder, 'orders.sqlite'));
  const databases = [open(), open()] as const;
  const [first, second] = databases;
  first.exec('PRAGMA journal_mode = WAL');
  first.exec('CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT, fence BIGINT NOT NULL DEFAULT 0)');
  first.exec(floorsTable(dialect));

  const runOn =
    (db: DatabaseSync): RunSql =>
    async ({ text, values }) => {
      const statement = db.prepare(text);
      const parameters = values as (string | number)[];
      if (text.startsWith('SELECT')) return { affectedRows: 0, rows: statement.all(...parameters) };
      return { affectedRows: Number(statement.run(...parameters).changes), rows: [] };
    };
  afterAll(() => {
    for (const db of databases) db.close();
    rmSync(folder, { recursive: true });
  });

  let writers = 0;
  let turn: Promise<unknown> = Promise.resolve();
  describeSqlGuards(
    {
      dialect,
      table: 'orders',
      next: () => runOn(writers++ % 2 ? second : first),
      // One connection has one transaction at a time.
      transact(work) {
        const outcome = turn.then(async () => {
          first.exec('BEGIN IMMEDIATE');
          const done = await work(runOn(first));
          first.exec(done.kind === 'written' ? 'COMMIT' : 'ROLLBACK');
          return done;
        });
        turn = outcome;
        return outcome;
      },
    },
    { runs: 50 },
  );

  describe('raiseFloor', () => {
    it('makes another writer wait until the transaction that raised the floor has ended', async () => {
      const resource = freshId();
      first.exec('BEGIN IMMEDIATE');
      await executeFenced(runOn(first), raiseFloor({ dialect, resource, fence: 33 }));
      await expect(executeFenced(runOn(second), raiseFloor({ dialect, resource, fence: 34 }))).rejects.toThrow(
        'database is locked',
      );
      first.exec('COMMIT');
      expect(await executeFenced(runOn(second), raiseFloor({ dialect, resource, fence: 34 }))).toEqual({
        kind: 'written',
      });
    });
  });
});
