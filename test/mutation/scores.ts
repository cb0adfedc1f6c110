import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { equivalents } from './equivalents.ts';
import { folderOf } from './folders.ts';

export type Outcome = 'noticed' | 'missed' | 'equivalent';

export interface Score {
  /** Mutants that a test noticed, or that never ended. */
  readonly noticed: number;
  /** Mutants that survived, or that no test reaches. */
  readonly missed: number;
  /** Mutants that make no difference, each with its reason in equivalents.ts. */
  readonly equivalent?: number;
}

const path = new URL('scores.json', import.meta.url);

const readScores = (): Record<string, Score> =>
  existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, Score>) : {};

/** Files that were not mutated keep their earlier scores. */
export function keepScores(file: string, outcomes: readonly Outcome[]): void {
  const count = (wanted: Outcome) => outcomes.filter((outcome) => outcome === wanted).length;
  const score: Score = { noticed: count('noticed'), missed: count('missed'), equivalent: count('equivalent') };
  const all = Object.entries({ ...readScores(), [file]: score });
  const sorted = Object.fromEntries(all.sort(([one], [other]) => (one < other ? -1 : 1)));
  writeFileSync(path, `${JSON.stringify(sorted, null, 2)}\n`);
}

/** The section of docs/mutants.md with the tool's results, folder by folder. */
export function scoresSection(): string {
  const byFolder = Map.groupBy(Object.entries(readScores()), ([file]) => folderOf(file) ?? file);
  const rows = [...byFolder].flatMap(([folder, files]) => [
    row(`**${folder}**`, files.reduce(sum, { noticed: 0, missed: 0 })),
    ...files.map(([file, score]) => row(`\`${file.slice(folder.length + 1)}\``, score)),
  ]);
  return [
    '## By tool, folder by folder',
    '',
    'StrykerJS changes every expression in every way that it knows, one at a time: `npm run mutate -- src/lock`.',
    'The suites that belong to the folder (`test/mutation/folders.ts`) run with each change. A mutant that',
    'survives is a missing test, or makes no difference. The score leaves out those that make none.',
    'Descriptions of fields in the contract are not changed (`test/mutation/left-out.ts`).',
    'Folders and files that are not listed have not been measured yet.',
    '',
    '| folder | mutants | noticed | no difference | score |',
    '|---|---:|---:|---:|---:|',
    ...rows,
    '',
    ...equivalentsSection(),
  ].join('\n');
}

function equivalentsSection(): string[] {
  if (equivalents.length === 0) return [];
  const code = (text: string) => `\`${text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')}\``;
  return [
    '### Mutants that make no difference',
    '',
    '| file | text | instead | why it makes no difference |',
    '|---|---|---|---|',
    ...equivalents.map(({ file, text, instead, why }) => `| \`${file}\` | ${code(text)} | ${code(instead)} | ${why} |`),
    '',
  ];
}

const sum = (total: Score, [, { noticed, missed, equivalent = 0 }]: [string, Score]): Score => ({
  noticed: total.noticed + noticed,
  missed: total.missed + missed,
  equivalent: (total.equivalent ?? 0) + equivalent,
});

const row = (name: string, { noticed, missed, equivalent = 0 }: Score): string =>
  [
    `| ${name}`,
    noticed + missed + equivalent,
    noticed,
    equivalent,
    `${((100 * noticed) / Math.max(1, noticed + missed)).toFixed(1)} % |`,
  ].join(' | ');
