/** The code blocks of README and docs, as a reader would copy them. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export interface Block {
  readonly page: string;
  /** The line of the page on which the code begins, counted from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
}

const pages = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((page) => page !== '' && existsSync(join(root, page)));

const fencedBlock = /^( *)```(\w+)\n([\s\S]*?)^ *```$/gm;

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(root, page), 'utf8');
  return [...text.matchAll(fencedBlock)].map(({ index, 1: indent = '', 2: language = '', 3: code = '' }) => ({
    page,
    line: text.slice(0, index).split('\n').length + 1,
    language,
    text: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }));
}

/** Every block of the language, page by page. */
export const blocksIn = (...languages: string[]): Block[] =>
  pages.flatMap(blocksOf).filter(({ language }) => languages.includes(language));
