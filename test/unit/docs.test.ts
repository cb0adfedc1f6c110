/** Keeps the pages readable: links have a target, and lines are short enough to read. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const textOf = (page: string): string => readFileSync(join(root, page), 'utf8');

const pages = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((page) => page !== '' && existsSync(join(root, page)));

/** Pages wrap at about 100. The rest is for a link or a name that can't be broken. */
const lineLengthMax = 120;

/** The text without its fenced code blocks. Line numbers stay as they were. */
function proseOf(page: string): string[] {
  let inCode = false;
  return textOf(page)
    .split('\n')
    .map((line) => {
      const isFence = /^\s*```/.test(line);
      if (isFence) inCode = !inCode;
      return inCode || isFence ? '' : line;
    });
}

/** An anchor, as GitHub makes it from a heading. */
const anchorOf = (heading: string): string =>
  heading
    .replace(/^#+\s+/, '')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');

const anchorsOf = (page: string): string[] =>
  proseOf(page)
    .filter((line) => /^#+\s/.test(line))
    .map(anchorOf);

interface Link {
  readonly page: string;
  readonly target: string;
}

const linksOf = (page: string): Link[] =>
  [
    ...proseOf(page)
      .join('\n')
      .matchAll(/\]\(([^)\s]+)\)/g),
  ]
    .map(([, target]) => ({ page, target: target as string }))
    .filter(({ target }) => !/^[a-z]+:/.test(target));

/** What is wrong with a link. Undefined if it is fine. */
function complaintAbout({ page, target }: Link): string | undefined {
  const [path = '', anchor] = target.split('#');
  const file = path === '' ? page : posix.join(posix.dirname(page), path);
  if (!existsSync(join(root, file))) return `${page} links to ${target}: there is no such file`;
  if (anchor === undefined) return undefined;
  return anchorsOf(file).includes(anchor) ? undefined : `${page} links to ${target}: there is no such heading`;
}

describe('the pages', () => {
  it('are found', () => {
    expect(pages).toContain('README.md');
    expect(pages.length).toBeGreaterThan(20);
    expect(pages.flatMap(linksOf).length).toBeGreaterThan(50);
  });

  it('have local links to files and headings that exist', () => {
    expect(
      pages
        .flatMap(linksOf)
        .map(complaintAbout)
        .filter((wrong) => wrong !== undefined),
    ).toEqual([]);
  });

  it('have no line of text that is too long to read', () => {
    // A table's row can't be wrapped, and an indented line is code.
    const long = pages.flatMap((page) =>
      proseOf(page).flatMap((line, index) =>
        line.length > lineLengthMax && !/^(\s*\|| {5})/.test(line) ? `${page}:${index + 1} has ${line.length}` : [],
      ),
    );
    expect(long).toEqual([]);
  });

  it('name only files and folders that exist', () => {
    const named = pages.flatMap((page) =>
      [
        ...proseOf(page)
          .join('\n')
          .matchAll(/`((?:src|test|infra|functions|docs)\/[\w./-]+)`/g),
      ].map(([, path]) => ({
        page,
        path: path as string,
      })),
    );
    expect(named.length).toBeGreaterThan(40);
    expect(named.filter(({ path }) => !existsSync(join(root, path)))).toEqual([]);
  });

  it('are in the package, so the links of the README work', () => {
    const { files } = JSON.parse(textOf('package.json')) as { files: string[] };
    const linked = linksOf('README.md').map(({ target }) => target.split(/[/#]/)[0] as string);
    // npm ships these by itself.
    const shipped = [...files, 'README.md', 'LICENSE'];
    expect(linked.filter((top) => !shipped.includes(top))).toEqual([]);
  });

  it('are all reachable from the README', () => {
    const reached = new Set(['README.md']);
    for (const page of reached) {
      for (const { target } of linksOf(page)) {
        const file = posix.join(posix.dirname(page), target.split('#')[0] as string);
        // A link to a folder shows all of its pages.
        for (const other of pages) if (other === file || other.startsWith(`${file}/`)) reached.add(other);
      }
    }
    expect(pages.filter((page) => !reached.has(page) && !page.startsWith('test/'))).toEqual([]);
  });
});
