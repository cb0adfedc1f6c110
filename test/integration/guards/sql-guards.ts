import { expect, it } from 'vitest';
import {
  executeFenced,
  type FencedRow,
  fencedUpdate,
  fencedUpsert,
  type RunSql,
  raiseFloor,
  type SqlDialect,
} from '../../../src/guards/sql.ts';
import { describePauseStory, type GuardedResource } from './pause-story.ts';

/** An engine with the table of floors, and with a table of orders: id, state and fence. */
export interface SqlEngine {
  readonly dialect: SqlDialect;
  readonly table: string | readonly string[];
  /** The connection of the next writer. If each has its own, they wait for each other in the engine. */
  next(): RunSql;
  /** Does all of it in one transaction, which is committed if the result is a write. */
  transact<T extends { kind: string }>(work: (run: RunSql) => Promise<T>): Promise<T>;
}

let ids = 0;
export const freshId = (): string => `order-${++ids}`;

/** The suite that the guards of every SQL engine pass. */
export function describeSqlGuards(engine: SqlEngine, options: { runs: number }): void {
  const { dialect, table } = engine;
  const name = [table].flat().join('.');
  /** Each engine has its own sign for a parameter. */
  const sql = (text: string, ...values: string[]) => {
    let parameters = 0;
    const written = dialect === 'postgres' ? text.replaceAll('?', () => `$${++parameters}`) : text;
    return { text: written, values };
  };
  const stored = async (id: string) => {
    const [row] = (await engine.next()(sql(`SELECT state, fence FROM ${name} WHERE id = ?`, id))).rows;
    return { value: (row?.state as string) ?? null, floor: row ? Number(row.fence) : null };
  };
  const freshRow = async (): Promise<string> => {
    const id = freshId();
    await engine.next()(sql(`INSERT INTO ${name} (id) VALUES (?)`, id));
    return id;
  };
  const rowOf = (id: string, fence: number, state: string): FencedRow => ({
    dialect,
    table,
    key: { id },
    set: { state },
    fence,
  });

  describePauseStory(
    'fencedUpsert',
    async (): Promise<GuardedResource> => {
      const id = freshId();
      return {
        write: (fence, state) => executeFenced(engine.next(), fencedUpsert(rowOf(id, fence, state))),
        read: () => stored(id),
      };
    },
    options,
  );

  describePauseStory(
    'fencedUpdate',
    async (): Promise<GuardedResource> => {
      const id = await freshRow();
      return {
        write: (fence, state) => executeFenced(engine.next(), fencedUpdate(rowOf(id, fence, state))),
        read: () => stored(id),
      };
    },
    options,
  );

  describePauseStory(
    'raiseFloor in a transaction',
    async (): Promise<GuardedResource> => {
      const id = await freshRow();
      return {
        write: (fence, state) =>
          engine.transact(async (within) => {
            const outcome = await executeFenced(within, raiseFloor({ dialect, resource: id, fence }));
            if (outcome.kind === 'written') await within(sql(`UPDATE ${name} SET state = ? WHERE id = ?`, state, id));
            return outcome;
          }),
        async read() {
          const [row] = (await engine.next()(raiseFloor({ dialect, resource: id, fence: 1 }).floor)).rows;
          return { value: (await stored(id)).value, floor: row ? Number(row.floor) : null };
        },
      };
    },
    options,
  );

  it('distinguishes an update of no row from a stale fence', async () => {
    const id = freshId();
    const update = fencedUpdate(rowOf(id, 33, 'x'));
    expect(await executeFenced(engine.next(), update)).toEqual({ kind: 'missing' });
    await executeFenced(engine.next(), fencedUpsert(rowOf(id, 34, 'x')));
    expect(await executeFenced(engine.next(), update)).toEqual({ kind: 'stale', fence: 33, floor: 34 });
  });
}
