import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { executeFenced, floorsTable, raiseFloor } from '../../../src/guards/sql.ts';
import { freePort } from '../../../src/local/engine/endpoint.ts';
import { findProgram, Program } from '../../support/program.ts';
import { connectMySql, type MySql } from './mysql-wire.ts';
import { describeWithEngine } from './pause-story.ts';
import { describeSqlGuards, freshId } from './sql-guards.ts';

const dialect = 'mysql';

describeWithEngine('MariaDB', findProgram('mariadbd'), 'apt-get install -y mariadb-server', (program) => {
  let server: Program;
  let port: number;
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-mariadb-'));
  const connections: MySql[] = [];

  const open = async (foundRows: boolean) => {
    const connection = await connectMySql(port, { foundRows });
    connections.push(connection);
    await connection.query('USE guards');
    return connection;
  };

  beforeAll(async () => {
    port = await freePort();
    const user = `--user=${userInfo().username}`;
    const install = findProgram('mariadb-install-db') ?? 'mariadb-install-db';
    execFileSync(install, ['--no-defaults', user, `--datadir=${folder}`, '--skip-test-db'], { stdio: 'pipe' });
    const words = [
      '--no-defaults',
      user,
      `--datadir=${folder}`,
      `--port=${port}`,
      '--bind-address=127.0.0.1',
      '--skip-grant-tables',
    ];
    server = new Program(program, [...words, `--socket=${join(folder, 'socket')}`]);
    await server.said(/ready for connections/, 'stderr');
    const admin = await connectMySql(port, { foundRows: false });
    await admin.query('CREATE DATABASE guards');
    await admin.query('USE guards');
    await admin.query(
      'CREATE TABLE orders (id VARCHAR(64) PRIMARY KEY, state VARCHAR(64), fence BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB',
    );
    await admin.query(floorsTable(dialect));
    admin.close();
  });

  afterAll(async () => {
    for (const connection of connections) connection.close();
    await server.end();
    rmSync(folder, { recursive: true });
  });

  // The flag changes what the engine counts, and drivers set it differently. The guard must be right with both.
  describe.each([{ foundRows: true }, { foundRows: false }])('with CLIENT_FOUND_ROWS $foundRows', ({ foundRows }) => {
    let pool: MySql[];
    beforeAll(async () => {
      pool = await Promise.all(Array.from({ length: 6 }, () => open(foundRows)));
    });
    /** Each writer has its own connection, so that writers wait at the row's lock and not in a client's queue. */
    const connection = (i = 0) => pool[i % pool.length] as MySql;

    let writers = 0;
    describeSqlGuards(
      {
        dialect,
        table: 'orders',
        next: () => connection(writers++).run,
        async transact(work) {
          const { query, run } = connection(writers++);
          await query('BEGIN');
          const outcome = await work(run);
          await query(outcome.kind === 'written' ? 'COMMIT' : 'ROLLBACK');
          return outcome;
        },
      },
      { runs: 15 },
    );

    it("refuses a stale holder whose transaction's snapshot is older than the raise", async () => {
      const [a, b] = [connection(0), connection(1)];
      const resource = freshId();
      await executeFenced(b.run, raiseFloor({ dialect, resource, fence: 33 }));
      await a.query('BEGIN');
      await a.query('SELECT * FROM holdfast_fences');
      await executeFenced(b.run, raiseFloor({ dialect, resource, fence: 34 }));
      expect(await executeFenced(a.run, raiseFloor({ dialect, resource, fence: 33 }))).toMatchObject({
        kind: 'stale',
        floor: 34,
      });
      await a.query('ROLLBACK');
    });

    it('keeps the floors of names that differ in case apart', async () => {
      const resource = freshId();
      await executeFenced(connection().run, raiseFloor({ dialect, resource, fence: 34 }));
      const upper = raiseFloor({ dialect, resource: resource.toUpperCase(), fence: 33 });
      expect(await executeFenced(connection().run, upper)).toEqual({ kind: 'written' });
    });
  });
});
