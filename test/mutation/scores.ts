import { existsSync, readFileSync } from 'node:fs';
import { folderOf } from './folders.ts';

export interface Score {
  /** Mutants that a test noticed, or that never ended. */
  readonly noticed: number;
  /** Mutants that survived, or that no test reaches. */
  readonly missed: number;
}

/** The section of docs/mutants.md with the tool's results, folder by folder. */
export function scoresSection(): string {
  const path = new URL('scores.json', import.meta.url);
  const scores = (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {}) as Record<string, Score>;
  const byFolder = Map.groupBy(Object.entries(scores), ([file]) => folderOf(file) ?? file);
  const rows = [...byFolder].flatMap(([folder, files]) => [
    row(`**${folder}**`, files.reduce(sum, { noticed: 0, missed: 0 })),
    ...files.map(([file, score]) => row(`\`${file.slice(folder.length + 1)}\``, score)),
  ]);
  return [
    '## By tool, folder by folder',
    '',
    'StrykerJS changes every expression in every way that it knows, one at a time, and runs the suites',
    'that belong to the folder (`test/mutation/folders.ts`): `npm run mutate -- src/lock`. A mutant that',
    'survives is a missing test, or means the same as the code. Folders that are not listed have not',
    'been measured yet.',
    '',
    '| folder | mutants | noticed | score |',
    '|---|---:|---:|---:|',
    ...rows,
    '',
  ].join('\n');
}

const sum = (total: Score, [, { noticed, missed }]: [string, Score]): Score => ({
  noticed: total.noticed + noticed,
  missed: total.missed + missed,
});

const row = (name: string, { noticed, missed }: Score): string =>
  `| ${name} | ${noticed + missed} | ${noticed} | ${((100 * noticed) / Math.max(1, noticed + missed)).toFixed(1)} % |`;
