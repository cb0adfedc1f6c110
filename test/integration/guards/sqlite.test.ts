import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, describe, expect, it } from 'vitest';
import {
  executeFenced,
  fencedUpdate,
  fencedUpsert,
  floorsTable,
  type RunSql,
  raiseFloor,
} from '../../../src/guards/sql.ts';
import { describePauseStory } from './pause-story.ts';

const dialect = 'sqlite';
const table = 'orders';

describe('SQLite', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'));
  // For SQLite's locks, two connections to one file are like two processes.
  const open = () => new DatabaseSync(join(folder, 'orders.sqlite'));
  const databases = [open(), open()] as const;
  const [first, second] = databases;
  first.exec('PRAGMA journal_mode = WAL');
  first.exec('CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT, fence BIGINT NOT NULL DEFAULT 0)');
  first.exec(floorsTable(dialect));
  let resources = 0;
  const freshId = () => `order-${++resources}`;

  const runOn =
    (db: DatabaseSync): RunSql =>
    async ({ text, values }) => {
      const statement = db.prepare(text);
      const parameters = values as (string | number)[];
      if (text.startsWith('SELECT')) return { affectedRows: 0, rows: statement.all(...parameters) };
      return { affectedRows: Number(statement.run(...parameters).changes), rows: [] };
    };
  const stored = async (id: string) => {
    const row = first.prepare('SELECT state, fence FROM orders WHERE id = ?').get(id);
    return { value: (row?.state as string) ?? null, floor: row ? Number(row.fence) : null };
  };
  const insert = (id: string) => first.prepare('INSERT INTO orders (id) VALUES (?)').run(id);

  afterAll(() => {
    for (const db of databases) db.close();
    rmSync(folder, { recursive: true });
  });

  describePauseStory(
    'fencedUpsert',
    async () => {
      const id = freshId();
      let writers = 0;
      return {
        write: (fence, state) =>
          executeFenced(
            runOn(writers++ % 2 ? second : first),
            fencedUpsert({ dialect, table, key: { id }, set: { state }, fence }),
          ),
        read: () => stored(id),
      };
    },
    { runs: 50 },
  );

  describePauseStory(
    'fencedUpdate',
    async () => {
      const id = freshId();
      insert(id);
      let writers = 0;
      return {
        write: (fence, state) =>
          executeFenced(
            runOn(writers++ % 2 ? second : first),
            fencedUpdate({ dialect, table, key: { id }, set: { state }, fence }),
          ),
        read: () => stored(id),
      };
    },
    { runs: 50 },
  );

  describePauseStory(
    'raiseFloor in a transaction',
    async () => {
      const id = freshId();
      insert(id);
      let turn: Promise<unknown> = Promise.resolve();
      const write = async (fence: number, state: string) => {
        first.exec('BEGIN IMMEDIATE');
        const outcome = await executeFenced(runOn(first), raiseFloor({ dialect, resource: id, fence }));
        if (outcome.kind === 'written') first.prepare('UPDATE orders SET state = ? WHERE id = ?').run(state, id);
        first.exec(outcome.kind === 'written' ? 'COMMIT' : 'ROLLBACK');
        return outcome;
      };
      return {
        // One connection has one transaction at a time.
        write(fence, state) {
          const outcome = turn.then(() => write(fence, state));
          turn = outcome;
          return outcome;
        },
        async read() {
          const { rows } = await runOn(first)(raiseFloor({ dialect, resource: id, fence: 1 }).floor);
          return { value: (await stored(id)).value, floor: rows[0] ? Number(rows[0].floor) : null };
        },
      };
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

  describe('fencedUpdate', () => {
    it('calls an update of no row missing', async () => {
      const update = fencedUpdate({ dialect, table, key: { id: freshId() }, set: { state: 'x' }, fence: 33 });
      expect(await executeFenced(runOn(first), update)).toEqual({ kind: 'missing' });
    });
  });
});
