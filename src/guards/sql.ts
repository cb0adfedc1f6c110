/**
 * The guard for rows in Postgres, MySQL (and MariaDB) and SQLite. Every builder returns text and values for any driver:
 * values are always parameters, identifiers are always quoted.
 *
 * There are two ways. The row itself has a fence column, and one statement is the whole write. Or there is a table of
 * floors, and the first statement of a transaction raises the floor; the rest of the transaction may do anything.
 *
 * Why this is safe at READ COMMITTED: the write takes the row's lock and keeps it until commit. Another writer waits
 * for that lock and then checks the row as it was committed, not as it was when that writer began. Postgres evaluates
 * WHERE again on the new row version, InnoDB reads the current row under its lock, and SQLite has one writer at a time.
 * At REPEATABLE READ or above Postgres fails the waiting statement with 40001 instead. That is safe too: start the
 * transaction again.
 */
import { checkFence, readFloor, type Stale } from './fence.ts';

/** @example `const dialect: SqlDialect = 'postgres';` */
export type SqlDialect = 'postgres' | 'mysql' | 'sqlite';

/**
 * A statement for any driver.
 *
 * @example
 * ```ts
 * await pool.query(statement.text, [...statement.values]);
 * ```
 */
export interface SqlStatement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/**
 * A fenced write, with what is needed to judge it. Give it to {@link executeFenced}, or run it and ask {@link
 * judgeRows}.
 *
 * @example
 * ```ts
 * const statement: FencedStatement = raiseFloor({ dialect: 'postgres', resource: 'invoices', fence: grant.fence });
 * ```
 */
export interface FencedStatement extends SqlStatement {
  readonly dialect: SqlDialect;
  readonly writes: 'update' | 'upsert';
  readonly fence: number;
  /**
   * Reads the floor into a column named `floor`; run it in the same transaction to tell a stale fence from a missing
   * row.
   */
  readonly floor: SqlStatement;
}

/**
 * The result of a fenced write. `missing` means that an UPDATE found no row with that key.
 *
 * @example
 * ```ts
 * const outcome: SqlOutcome = await executeFenced(run, statement);
 * ```
 */
export type SqlOutcome = { readonly kind: 'written' } | Stale | { readonly kind: 'missing' };

/**
 * Names the table, as one name or as a path such as `['accounting', 'orders']`, and the column that keeps the floor.
 */
interface FencedTable {
  readonly dialect: SqlDialect;
  readonly table: string | readonly string[];
  /** The column that keeps the floor: `BIGINT NOT NULL DEFAULT 0`. Default `fence`: the word that a grant uses. */
  readonly column?: string;
  readonly fence: number;
}

/**
 * A row to write, by its key.
 *
 * @example
 * ```ts
 * const row: FencedRow = { dialect: 'sqlite', table: 'orders', key: { id: 7 }, set: { state: 'paid' }, fence: grant.fence };
 * ```
 */
export interface FencedRow extends FencedTable {
  /** The columns that identify one row; for an upsert, those of its primary or unique key. */
  readonly key: Readonly<Record<string, unknown>>;
  /**
   * The columns to write. Values only: for arithmetic on columns, raise a floor first and run your own statement after
   * it.
   */
  readonly set: Readonly<Record<string, unknown>>;
}

/**
 * `UPDATE … SET …, fence = n WHERE key AND fence <= n`: writes an existing row unless a later holder has written it.
 *
 * @example
 * ```ts
 * fencedUpdate({ dialect: 'postgres', table: 'orders', key: { id: 7 }, set: { state: 'paid' }, fence: 34 });
 * // UPDATE "orders" SET "state" = $1, "fence" = $2 WHERE "id" = $3 AND "fence" <= $2
 * ```
 */
export function fencedUpdate(row: FencedRow): FencedStatement {
  const { sql, column, quote } = checkedRow(row);
  const assignments = [...Object.entries(row.set), [column, row.fence] as const].map(
    ([name, value]) => `${quote(name)} = ${sql.parameter(value, name === column ? 'fence' : undefined)}`,
  );
  const conditions = Object.entries(row.key).map(([name, value]) => `${quote(name)} = ${sql.parameter(value)}`);
  // No later holder has written this row. It is checked under the lock of the row that is written.
  conditions.push(`${quote(column)} <= ${sql.parameter(row.fence, 'fence')}`);
  const text = `UPDATE ${quotePath(row)} SET ${assignments.join(', ')} WHERE ${conditions.join(' AND ')}`;
  const { dialect, fence } = row;
  return { text, values: sql.values, dialect, writes: 'update', fence, floor: selectFloor(row) };
}

/**
 * Inserts the row, or updates it unless a later holder has written it.
 *
 * On MySQL the row should have no unique key except `key`, because ON DUPLICATE KEY UPDATE acts on any key that
 * collides.
 *
 * @example
 * ```ts
 * fencedUpsert({ dialect: 'sqlite', table: 'orders', key: { id: 7 }, set: { state: 'paid' }, fence: 34 });
 * // INSERT INTO "orders" AS "stored" ("id", "state", "fence") VALUES (?, ?, ?)
 * //   ON CONFLICT ("id") DO UPDATE SET "state" = excluded."state", "fence" = excluded."fence"
 * //   WHERE "stored"."fence" <= excluded."fence"
 * ```
 */
export function fencedUpsert(row: FencedRow): FencedStatement {
  const { sql, column, quote } = checkedRow(row);
  const inserted: Record<string, unknown> = { ...row.key, ...row.set, [column]: row.fence };
  const columns = Object.keys(inserted).map(quote).join(', ');
  const values = Object.values(inserted).map((value) => sql.parameter(value));
  const keys = Object.keys(row.key).map(quote).join(', ');
  const written = [...Object.keys(row.set), column].map(quote);
  const insert = row.dialect === 'mysql' ? quotePath(row) : `${quotePath(row)} AS "stored"`;
  const onConflict =
    row.dialect === 'mysql'
      ? `ON DUPLICATE KEY UPDATE ${keepingLater(written, quote(column))}`
      : `ON CONFLICT (${keys}) DO UPDATE SET ${written.map((name) => `${name} = excluded.${name}`).join(', ')} ` +
        `WHERE "stored".${quote(column)} <= excluded.${quote(column)}`;
  const text = `INSERT INTO ${insert} (${columns}) VALUES (${values.join(', ')}) ${onConflict}`;
  const { dialect, fence } = row;
  return { text, values: sql.values, dialect, writes: 'upsert', fence, floor: selectFloor(row) };
}

/**
 * MySQL has no WHERE on ON DUPLICATE KEY UPDATE, so a stale write sets each column to its old value. VALUES() is
 * deprecated in MySQL, but MariaDB does not know the newer form, a row alias.
 */
function keepingLater(columns: readonly string[], floor: string): string {
  return columns.map((name) => `${name} = IF(${floor} <= VALUES(${floor}), VALUES(${name}), ${name})`).join(', ');
}

/** The name tells a user where this table comes from. */
const defaultFloorsTable = 'holdfast_fences';

/**
 * The table of floors, for resources that are more than one row or not rows at all. Run it once, with your migrations.
 *
 * @example
 * ```ts
 * await pool.query(floorsTable('postgres'));
 * // CREATE TABLE IF NOT EXISTS "holdfast_fences" ("resource" TEXT NOT NULL PRIMARY KEY, "fence" BIGINT NOT NULL)
 * ```
 */
export function floorsTable(dialect: SqlDialect, table: string | readonly string[] = defaultFloorsTable): string {
  const quote = quoter(dialect);
  // MySQL's usual collations ignore case, and two resources would share a floor; and only InnoDB has the row locks that
  // a floor needs.
  const [name, engine] =
    dialect === 'mysql' ? ['VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin', ' ENGINE=InnoDB'] : ['TEXT', ''];
  const columns = `${quote('resource')} ${name} NOT NULL PRIMARY KEY, ${quote('fence')} BIGINT NOT NULL`;
  return `CREATE TABLE IF NOT EXISTS ${quotePath({ dialect, table })} (${columns})${engine}`;
}

/**
 * Raises the floor of a named resource. Run it as the first statement of a transaction, and go on only if it was
 * written. The floor's row stays locked until the commit, so no other holder can write while the rest of the
 * transaction runs. On SQLite begin with `BEGIN IMMEDIATE`.
 *
 * @example
 * ```ts
 * await client.query('BEGIN');
 * throwIfStale(await executeFenced(run, raiseFloor({ dialect: 'postgres', resource: `account/${id}`, fence: grant.fence })));
 * await client.query('UPDATE accounts SET balance = balance - $1 WHERE id = $2', [amount, id]);
 * await client.query('COMMIT');
 * ```
 */
export function raiseFloor(floor: {
  readonly dialect: SqlDialect;
  readonly resource: string;
  readonly fence: number;
  readonly table?: string | readonly string[];
}): FencedStatement {
  const { dialect, resource, fence, table = defaultFloorsTable } = floor;
  return fencedUpsert({ dialect, table, fence, key: { resource }, set: {} });
}

/**
 * What a count of affected rows proves. If it proves nothing, the result is null and the floor must be read.
 *
 * No rows from an UPDATE may mean a stale fence or a missing row. MySQL adds two traps. If a row was set to the values
 * that it had, MySQL counts 0. If the connection has the CLIENT_FOUND_ROWS flag, it counts 1 (mysql2 and the MariaDB
 * connector set the flag). So a holder that repeats a write may see 0, and a refused upsert may see 1, the same as an
 * insert. Here a count is proof only if it is so under both settings.
 *
 * @example
 * ```ts
 * const { rowCount } = await client.query(statement.text, [...statement.values]);
 * if (judgeRows(statement, rowCount ?? 0) === null) … // read the floor, or let executeFenced do all of it
 * ```
 */
export function judgeRows(statement: FencedStatement, affectedRows: number): 'written' | null {
  const proof = statement.dialect === 'mysql' && statement.writes === 'upsert' ? 2 : 1;
  return affectedRows >= proof ? 'written' : null;
}

/**
 * Judges a fenced write for which {@link judgeRows} found no proof. It uses the floor that was read after the write, in
 * the same transaction. An applied write leaves the floor at its own fence. A refused one leaves it higher, whatever
 * MySQL counted.
 *
 * Without a transaction the answer can be wrong in one way: on MySQL, a write that was applied and at once replaced is
 * called stale.
 *
 * @param floor the column `floor` of the row that {@link FencedStatement.floor} found; undefined when it found none.
 *
 * @example
 * ```ts
 * const { rows } = await client.query(statement.floor.text, [...statement.floor.values]);
 * const outcome = judgeFloor(statement, rows[0]?.floor);
 * ```
 */
export function judgeFloor(statement: FencedStatement, floor: unknown): SqlOutcome {
  if (floor === undefined) return { kind: 'missing' };
  const found = readFloor(floor, 'the fence column (declare it BIGINT NOT NULL DEFAULT 0)');
  if (found > statement.fence) return { kind: 'stale', fence: statement.fence, floor: found };
  // Postgres and SQLite count every row that they write. So if the row does not refuse, it was created after the
  // statement ran.
  return { kind: statement.dialect === 'mysql' && found === statement.fence ? 'written' : 'missing' };
}

/**
 * Runs a statement by the user's driver: how many rows the engine says it affected, and the rows that it returned.
 *
 * @example
 * ```ts
 * const run: RunSql = async ({ text, values }) => {
 *   const { rowCount, rows } = await client.query(text, [...values]); // node-postgres
 *   return { affectedRows: rowCount ?? 0, rows };
 * };
 * ```
 */
export type RunSql = (
  statement: SqlStatement,
) => Promise<{ readonly affectedRows: number; readonly rows: readonly Readonly<Record<string, unknown>>[] }>;

/**
 * Runs a fenced statement and judges it. If the count of rows is proof, this is one round trip. If not, a second one
 * reads the floor.
 *
 * @example
 * ```ts
 * const outcome = await executeFenced(run, fencedUpdate({ dialect: 'mysql', table: 'orders', key: { id }, set: { state: 'paid' }, fence }));
 * if (outcome.kind === 'stale') return abandon(outcome.floor);
 * ```
 */
export async function executeFenced(run: RunSql, statement: FencedStatement): Promise<SqlOutcome> {
  const { affectedRows } = await run(statement);
  if (judgeRows(statement, affectedRows)) return { kind: 'written' };
  const { rows } = await run(statement.floor);
  return judgeFloor(statement, rows[0]?.floor);
}

function selectFloor(row: Omit<FencedRow, 'set'>): SqlStatement {
  const quote = quoter(row.dialect);
  const sql = parameters(row.dialect);
  const conditions = Object.entries(row.key).map(([name, value]) => `${quote(name)} = ${sql.parameter(value)}`);
  // At MySQL's REPEATABLE READ a plain SELECT shows the snapshot of the transaction's first read. A later raise is
  // missing from it.
  const lock = row.dialect === 'sqlite' ? '' : ' FOR UPDATE';
  const text = `SELECT ${quote(row.column ?? 'fence')} AS ${quote('floor')} FROM ${quotePath(row)} WHERE ${conditions.join(' AND ')}${lock}`;
  return { text, values: sql.values };
}

function checkedRow(row: FencedRow) {
  checkFence(row.fence);
  const column = row.column ?? 'fence';
  const keys = Object.keys(row.key);
  if (keys.length === 0) throw new TypeError('Expected at least one column in `key`: a fenced write changes one row.');
  for (const name of Object.keys(row.set)) {
    if (name === column) throw new TypeError(`The column ${name} keeps the floor, so it can't be in \`set\`.`);
    if (keys.includes(name)) throw new TypeError(`The column ${name} is in both \`key\` and \`set\`.`);
  }
  if (keys.includes(column)) throw new TypeError(`The column ${column} keeps the floor, so it can't be in \`key\`.`);
  return { column, sql: parameters(row.dialect), quote: quoter(row.dialect) };
}

/**
 * Collects values and returns their placeholders. Postgres numbers its placeholders, so there a value with a name is
 * sent once.
 */
function parameters(dialect: SqlDialect) {
  const values: unknown[] = [];
  const places = new Map<string, string>();
  const parameter = (value: unknown, shared?: string): string => {
    const known = shared === undefined || dialect !== 'postgres' ? undefined : places.get(shared);
    if (known) return known;
    values.push(value);
    const place = dialect === 'postgres' ? `$${values.length}` : '?';
    if (shared !== undefined) places.set(shared, place);
    return place;
  };
  return { values, parameter };
}

function quotePath({ dialect, table }: Pick<FencedTable, 'dialect' | 'table'>): string {
  return (typeof table === 'string' ? [table] : table).map(quoter(dialect)).join('.');
}

function quoter(dialect: SqlDialect): (identifier: string) => string {
  const mark = dialect === 'mysql' ? '`' : '"';
  return (identifier) => {
    if (identifier === '' || identifier.includes('\0')) {
      throw new TypeError(`Expected the name of a table or column; got ${JSON.stringify(identifier)}.`);
    }
    return mark + identifier.replaceAll(mark, mark + mark) + mark;
  };
}
