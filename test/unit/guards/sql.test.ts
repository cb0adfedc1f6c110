import { describe, expect, it } from 'vitest';
import {
  executeFenced,
  type FencedRow,
  fencedUpdate,
  fencedUpsert,
  floorsTable,
  judgeFloor,
  judgeRows,
  type RunSql,
  raiseFloor,
} from '../../../src/guards/sql.ts';

const row: Omit<FencedRow, 'dialect'> = { table: 'orders', key: { id: 7 }, set: { state: 'paid' }, fence: 34 };

describe('fencedUpdate', () => {
  it('numbers its parameters for Postgres and uses the fence twice', () => {
    const { text, values, floor } = fencedUpdate({ ...row, dialect: 'postgres' });
    expect(text).toBe('UPDATE "orders" SET "state" = $1, "fence" = $2 WHERE "id" = $3 AND "fence" <= $2');
    expect(values).toEqual(['paid', 34, 7]);
    expect(floor).toEqual({ text: 'SELECT "fence" AS "floor" FROM "orders" WHERE "id" = $1 FOR UPDATE', values: [7] });
  });

  it('repeats its parameters for MySQL and SQLite', () => {
    const mysql = fencedUpdate({ ...row, dialect: 'mysql' });
    expect(mysql.text).toBe('UPDATE `orders` SET `state` = ?, `fence` = ? WHERE `id` = ? AND `fence` <= ?');
    expect(mysql.values).toEqual(['paid', 34, 7, 34]);
    const sqlite = fencedUpdate({ ...row, dialect: 'sqlite' });
    expect(sqlite.text).toBe('UPDATE "orders" SET "state" = ?, "fence" = ? WHERE "id" = ? AND "fence" <= ?');
    expect(sqlite.floor.text).toBe('SELECT "fence" AS "floor" FROM "orders" WHERE "id" = ?');
  });

  it('finds the row by all columns of its key', () => {
    const { text, floor, writes } = fencedUpdate({ ...row, dialect: 'postgres', key: { shop: 'a', id: 7 } });
    expect(text).toContain('WHERE "shop" = $3 AND "id" = $4 AND "fence" <= $2');
    expect(floor.text).toContain('WHERE "shop" = $1 AND "id" = $2 FOR UPDATE');
    expect(writes).toBe('update');
  });

  it('quotes any name, and never puts a value into the text', () => {
    const odd = { ...row, table: ['a"b', 'c`d'], key: { 'x"; --': 1 }, set: { 's`': "'; DROP TABLE orders; --" } };
    expect(fencedUpdate({ ...odd, dialect: 'postgres' }).text).toBe(
      'UPDATE "a""b"."c`d" SET "s`" = $1, "fence" = $2 WHERE "x""; --" = $3 AND "fence" <= $2',
    );
    expect(fencedUpdate({ ...odd, dialect: 'mysql' }).text).toBe(
      'UPDATE `a"b`.`c``d` SET `s``` = ?, `fence` = ? WHERE `x"; --` = ? AND `fence` <= ?',
    );
  });

  it.each([
    [{ key: {} }, 'at least one column'],
    [{ set: { fence: 1 } }, 'keeps the floor'],
    [{ key: { fence: 1 } }, 'keeps the floor'],
    [{ set: { id: 1 } }, 'both `key` and `set`'],
    [{ table: '' }, 'name of a table'],
    [{ table: 'a\0b' }, 'name of a table'],
  ])('refuses %o', (change, message) => {
    expect(() => fencedUpdate({ ...row, dialect: 'postgres', ...change })).toThrow(message);
  });
});

describe('fencedUpsert', () => {
  it('updates on conflict only if no later holder has written', () => {
    const { text, values } = fencedUpsert({ ...row, dialect: 'postgres' });
    expect(text).toBe(
      'INSERT INTO "orders" AS "stored" ("id", "state", "fence") VALUES ($1, $2, $3) ON CONFLICT ("id") DO UPDATE SET "state" = excluded."state", "fence" = excluded."fence" WHERE "stored"."fence" <= excluded."fence"',
    );
    expect(values).toEqual([7, 'paid', 34]);
  });

  it('conflicts by all columns of its key', () => {
    expect(fencedUpsert({ ...row, dialect: 'sqlite', key: { shop: 'a', id: 7 } }).text).toContain(
      'ON CONFLICT ("shop", "id") DO UPDATE',
    );
  });

  it('keeps every column as it was on MySQL, which has no WHERE there, when a later holder has written', () => {
    const { text } = fencedUpsert({ ...row, dialect: 'mysql' });
    expect(text).toBe(
      'INSERT INTO `orders` (`id`, `state`, `fence`) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE `state` = IF(`fence` <= VALUES(`fence`), VALUES(`state`), `state`), `fence` = IF(`fence` <= VALUES(`fence`), VALUES(`fence`), `fence`)',
    );
  });
});

describe('floorsTable', () => {
  it('has a row for each resource', () => {
    expect(floorsTable('postgres')).toBe(
      'CREATE TABLE IF NOT EXISTS "holdfast_fences" ("resource" TEXT NOT NULL PRIMARY KEY, "fence" BIGINT NOT NULL)',
    );
    // Only InnoDB locks rows.
    expect(floorsTable('mysql', ['app', 'floors'])).toBe(
      'CREATE TABLE IF NOT EXISTS `app`.`floors` (`resource` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ' +
        'NOT NULL PRIMARY KEY, `fence` BIGINT NOT NULL) ENGINE=InnoDB',
    );
  });
});

describe('judgeRows', () => {
  const upsert = (dialect: FencedRow['dialect']) => raiseFloor({ dialect, resource: 'r', fence: 34 });
  it('needs one row as proof, and two for an upsert on MySQL, where one may be a refusal', () => {
    expect(judgeRows(upsert('postgres'), 1)).toBe('written');
    expect(judgeRows(upsert('sqlite'), 1)).toBe('written');
    expect(judgeRows(upsert('mysql'), 1)).toBeNull();
    expect(judgeRows(upsert('mysql'), 2)).toBe('written');
    expect(judgeRows(fencedUpdate({ ...row, dialect: 'mysql' }), 1)).toBe('written');
  });

  it('concludes nothing from no rows', () => {
    for (const dialect of ['postgres', 'sqlite', 'mysql'] as const) expect(judgeRows(upsert(dialect), 0)).toBeNull();
  });
});

describe('executeFenced', () => {
  const statement = fencedUpdate({ ...row, dialect: 'postgres' });
  const running = (affectedRows: number, ...rows: { floor: unknown }[]) => {
    const ran: string[] = [];
    const run: RunSql = async ({ text }) => {
      ran.push(text);
      return text === statement.text ? { affectedRows, rows: [] } : { affectedRows: 0, rows };
    };
    return { ran, run };
  };

  it('is one statement if the count of rows is proof', async () => {
    const { ran, run } = running(1);
    expect(await executeFenced(run, statement)).toEqual({ kind: 'written' });
    expect(ran).toEqual([statement.text]);
  });

  it('reads the floor otherwise', async () => {
    const { ran, run } = running(0, { floor: '35' });
    expect(await executeFenced(run, statement)).toEqual({ kind: 'stale', fence: 34, floor: 35 });
    expect(ran).toEqual([statement.text, statement.floor.text]);
    expect(await executeFenced(running(0).run, statement)).toEqual({ kind: 'missing' });
  });
});

describe('judgeFloor', () => {
  const update = (dialect: FencedRow['dialect']) => fencedUpdate({ ...row, dialect });
  it('distinguishes stale from missing, in every form in which a driver returns the floor', () => {
    for (const floor of [35, '35', 35n])
      expect(judgeFloor(update('postgres'), floor)).toEqual({ kind: 'stale', fence: 34, floor: 35 });
    expect(judgeFloor(update('postgres'), undefined)).toEqual({ kind: 'missing' });
  });

  it('accepts its own fence as proof only if MySQL did not count the row', () => {
    expect(judgeFloor(update('mysql'), 34)).toEqual({ kind: 'written' });
    expect(judgeFloor(update('postgres'), 34)).toEqual({ kind: 'missing' });
    expect(judgeFloor(update('mysql'), 33)).toEqual({ kind: 'missing' });
  });

  it('throws on a NULL floor and says how to declare the column', () => {
    expect(() => judgeFloor(update('postgres'), null)).toThrow('BIGINT NOT NULL DEFAULT 0');
  });
});
