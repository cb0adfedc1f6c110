/**
 * Explores the model of one lock with SPIN, in every order of steps: `node test/model/run.ts [small|all]`. The plain
 * model must show no error. Then each fault is planted, and the model must show an error. Needs `spin` and a C
 * compiler. Without them it is skipped with a message.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const model = fileURLToPath(new URL('lock.pml', import.meta.url));

type Scope = Readonly<Record<'CLIENTS' | 'FRONT' | 'PLACES' | 'DEATHS' | 'LOST' | 'EXPIRIES' | 'COPIES', number>>;

const scopeOf = (more: Partial<Scope>): Scope => ({
  CLIENTS: 3,
  FRONT: 1,
  PLACES: 1,
  DEATHS: 0,
  LOST: 0,
  EXPIRIES: 0,
  COPIES: 0,
  ...more,
});

/** Seconds each: the scopes for every day. Together they have every kind of fault, one or two at a time. */
const small: Readonly<Record<string, Scope>> = {
  'two clients, every mishap': scopeOf({ CLIENTS: 2, DEATHS: 1, LOST: 1, EXPIRIES: 1, COPIES: 1 }),
  'three clients, one dies, one answer is lost': scopeOf({ DEATHS: 1, LOST: 1 }),
  'three clients, a lease runs out': scopeOf({ EXPIRIES: 1 }),
  'three clients, a copy comes late': scopeOf({ COPIES: 1 }),
};
/** Minutes each. */
const large: Readonly<Record<string, Scope>> = {
  'four clients, calm': scopeOf({ CLIENTS: 4 }),
  'three clients, a lease runs out, a copy comes late': scopeOf({ EXPIRIES: 1, COPIES: 1 }),
  'three clients, every mishap': scopeOf({ DEATHS: 1, LOST: 1, EXPIRIES: 1, COPIES: 1 }),
  'four clients, one dies': scopeOf({ CLIENTS: 4, DEATHS: 1 }),
  'four clients, two places in the front and in a page': scopeOf({ CLIENTS: 4, FRONT: 2, PLACES: 2, DEATHS: 1 }),
};

/**
 * Each fault takes one condition away, in the smallest scope that shows it. `slow`: it shows only after millions of
 * states.
 */
const faults: Readonly<Record<string, { readonly meaning: string; readonly scope: Scope; readonly slow?: true }>> = {
  BUG_SAME_FENCE: { meaning: 'a grant does not raise the fence', scope: scopeOf({ CLIENTS: 2 }) },
  BUG_SERVE_ABSENT: { meaning: 'the absent are served like the present', scope: scopeOf({ DEATHS: 1 }) },
  BUG_FREE_WITH_PAGES: { meaning: 'a release frees the lock while pages hold waiters', scope: scopeOf({}) },
  BUG_STALE_PAGE: { meaning: 'an old read names a page for a lock that is free', scope: scopeOf({ CLIENTS: 4 }) },
  BUG_MERGE_TWICE: {
    meaning: 'a page is merged again after others moved on',
    scope: scopeOf({ CLIENTS: 4, EXPIRIES: 1 }),
    slow: true,
  },
  BUG_MERGE_COPIES: {
    meaning: 'a copy in a page is served beside the first',
    scope: scopeOf({ CLIENTS: 4, FRONT: 2, PLACES: 2, COPIES: 1 }),
    slow: true,
  },
  BUG_FORGET_ENDED: { meaning: 'a late copy takes the lock again', scope: scopeOf({ CLIENTS: 2, COPIES: 1 }) },
  BUG_APPEND_TO_CLOSED: { meaning: 'a waiter is put into a page that was closed', scope: scopeOf({ CLIENTS: 4 }) },
  BUG_LATE_RENEWAL: {
    meaning: 'a renewal counts although another holds by now',
    scope: scopeOf({ CLIENTS: 2, EXPIRIES: 1 }),
  },
  BUG_ANYBODY_RELEASES: { meaning: 'a release frees the lock of every holder', scope: scopeOf({ EXPIRIES: 1 }) },
  BUG_NO_MARGIN: {
    meaning: 'a client relies on its lease to the last moment',
    scope: scopeOf({ CLIENTS: 2, EXPIRIES: 1 }),
  },
};

interface Explored {
  readonly errors: number;
  readonly states: number;
  readonly complete: boolean;
  readonly trail: string;
}

/** Memory of one search in megabytes. A laptop has this much. */
const memoryMb = 3_500;
const depthMax = 200_000;

function explore(scope: Scope, fault?: string): Explored {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-model-'));
  const run = (file: string, args: readonly string[]) =>
    spawnSync(file, args, { cwd: folder, encoding: 'utf8', maxBuffer: 64 * 2 ** 20 });
  try {
    const defined = [
      ...Object.entries(scope).map(([name, value]) => `-D${name}=${value}`),
      ...(fault ? [`-D${fault}`] : []),
    ];
    const made = run('spin', [...defined, '-a', model]);
    if (made.status !== 0) throw new Error(`spin can't read the model:\n${made.stdout}${made.stderr}`);
    const compiled = run('cc', ['-w', '-O2', '-DSAFETY', '-DCOLLAPSE', `-DMEMLIM=${memoryMb}`, '-o', 'pan', 'pan.c']);
    if (compiled.status !== 0) throw new Error(`The search can't be compiled:\n${compiled.stderr}`);
    const { stdout } = run('./pan', [`-m${depthMax}`]);
    const errors = Number(/errors: (\d+)/.exec(stdout)?.[1] ?? Number.NaN);
    const states = Number(/([\d.e+]+) states, stored/.exec(stdout)?.[1] ?? Number.NaN);
    const complete = !/Search not completed|max search depth too small|out of memory/.test(stdout);
    const trail =
      errors > 0 && fault === undefined
        ? run('spin', [...defined, '-t', '-p', '-g', '-k', 'lock.pml.trail', model]).stdout
        : '';
    return { errors, states, complete, trail };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function isThere(program: string): boolean {
  try {
    execFileSync('which', [program], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

const print = (line: string) => process.stdout.write(`${line}\n`);
const missing = ['spin', 'cc'].filter((program) => !isThere(program));
if (missing.length > 0) {
  print(
    `SKIPPED: the model was not explored, because there is no ${missing.join(' and no ')} here (Debian: apt-get install spin gcc).`,
  );
  process.exit(0);
}

/** For one fault alone: `node test/model/run.ts small BUG_SAME_FENCE`. */
const only = process.argv[3];
let failed = 0;
const isSmall = process.argv[2] === 'small';
const scopes = isSmall ? small : { ...small, ...large };
for (const [name, scope] of only === undefined ? Object.entries(scopes) : []) {
  const { errors, states, complete, trail } = explore(scope);
  const verdict = errors > 0 ? 'BROKEN' : complete ? 'holds' : 'NOT COMPLETED';
  if (verdict !== 'holds') failed += 1;
  print(`${name}: ${verdict}, ${states.toLocaleString('en')} states`);
  if (errors > 0) print(trail.slice(-4_000));
}
for (const [fault, { meaning, scope, slow }] of Object.entries(faults)) {
  if (only === undefined ? isSmall && slow : only !== fault) continue;
  const { errors, states } = explore(scope, fault);
  if (errors === 0) failed += 1;
  print(
    `planted: ${meaning}: ${errors > 0 ? 'found' : 'NOT FOUND'} (${fault}, after ${states.toLocaleString('en')} states)`,
  );
}
process.exitCode = failed > 0 ? 1 : 0;
