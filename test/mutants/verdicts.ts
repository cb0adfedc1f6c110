/** What became of each mutant when it was last planted, and the page that shows it. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { scoresSection } from '../mutation/scores.ts';
import { type Mutant, mutants } from './list.ts';

export interface Verdict {
  /** The suite that noticed it; null if it survived. */
  readonly suite: string | null;
  /** The test, or the world of the simulation. */
  readonly where: string;
  /** From the start of the first suite. */
  readonly seconds: number;
  readonly day: string;
}

const path = new URL('verdicts.json', import.meta.url);
const page = new URL('../../docs/mutants.md', import.meta.url);

/** By the names of the mutants. */
export const readVerdicts = (): Readonly<Record<string, Verdict>> =>
  existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, Verdict>) : {};

/** Notes a verdict. Those of mutants that are no longer in the list are dropped. */
export function keepVerdict(mutant: Mutant, verdict: Verdict): void {
  const all = { ...readVerdicts(), [mutant.name]: verdict };
  const kept = mutants.flatMap(({ name }) => (name in all ? [[name, all[name]]] : []));
  writeFileSync(path, `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`);
}

export function writePage(): void {
  writeFileSync(page, pageOf(readVerdicts()));
}

/** The whole of docs/mutants.md. */
export function pageOf(verdicts: Readonly<Record<string, Verdict>>): string {
  const judged = mutants.flatMap((mutant) => {
    const verdict = verdicts[mutant.name];
    return verdict === undefined ? [] : [{ mutant, verdict }];
  });
  const noticed = judged.filter(({ verdict }) => verdict.suite !== null).length;
  const unjudged = mutants.length - judged.length;
  return [
    '# The mutants, and which test noticed each',
    '',
    '`npm run mutants` writes this page: do not edit it. Each row is a fault of `test/mutants/list.ts`,',
    'planted alone. The suites that can know of the file ran one after another until one of them failed.',
    'The seconds count from the start of the first suite, on a busy machine. The day is the day of that',
    'run; `npm run mutants -- --unjudged` plants those that have no verdict yet.',
    'A seed names a world of the simulation. If the fault is planted, this command shows it again:',
    '`HOLDFAST_SEED=<seed> npx vitest run --config test/vitest.config.ts --project simulation`.',
    '',
    `${judged.length} planted, ${noticed} noticed, ${judged.length - noticed} survived${unjudged === 0 ? '' : `, ${unjudged} without a verdict yet`}.`,
    '',
    '| mutant | file | noticed by | where | seconds | day |',
    '|---|---|---|---|---|---|',
    ...mutants.map(({ name, file }) => {
      const verdict = verdicts[name];
      if (verdict === undefined) return `| ${name} | \`${file}\` | no verdict yet | | | |`;
      const { suite, where, seconds, day } = verdict;
      return `| ${name} | \`${file}\` | ${suite ?? '**survived**'} | ${where} | ${seconds.toFixed(1)} | ${day} |`;
    }),
    '',
    scoresSection(),
  ].join('\n');
}
