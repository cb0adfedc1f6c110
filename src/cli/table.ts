import { stripVTControlCharacters } from 'node:util';

export interface Column {
  readonly title: string;
  readonly align?: 'right';
}

/** A column of numbers. They are aligned right, so that their digits line up. */
export const right = (title: string): Column => ({ title, align: 'right' });

const gap = '  ';
const widePattern = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}]/u;

/** The number of terminal columns that a text needs. */
export const widthOf = (text: string): number =>
  [...stripVTControlCharacters(text)].reduce((width, char) => width + (widePattern.test(char) ? 2 : 1), 0);

/**
 * Makes text from other callers safe to print. An owner or a reason must not move the cursor, set the title or hide
 * text.
 */
export const harmless = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{FFFD}');

/** Cuts a text that is too wide. Pass plain text only: a cut would lose the codes that end a color. */
export function cutTo(text: string, widthMax: number): string {
  if (widthOf(text) <= widthMax) return text;
  let kept = '';
  for (const char of text) {
    if (widthOf(kept + char) > widthMax - 1) break;
    kept += char;
  }
  return `${kept}…`;
}

/**
 * Lays out rows under their titles. If the terminal is too narrow, the widest column shrinks, but never below its title
 * or eight characters.
 */
export function layTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  { widthMax = Number.POSITIVE_INFINITY, title = (text: string) => text } = {},
): string {
  const widths = columns.map((column, i) =>
    Math.max(widthOf(column.title), ...rows.map((row) => widthOf(row[i] ?? ''))),
  );
  shrink(widths, columns, widthMax);
  const line = (cells: readonly string[], style: (text: string) => string = (text) => text) =>
    cells
      .map((cell, i) => {
        const width = widths[i] ?? 0;
        const text = cutTo(cell, width);
        const padding = ' '.repeat(Math.max(0, width - widthOf(text)));
        return columns[i]?.align === 'right' ? padding + style(text) : style(text) + padding;
      })
      .join(gap)
      .trimEnd();
  const heading = line(
    columns.map((column) => column.title),
    title,
  );
  return `${[heading, ...rows.map((row) => line(row))].join('\n')}\n`;
}

function shrink(widths: number[], columns: readonly Column[], widthMax: number): void {
  const least = columns.map((column) => Math.max(8, widthOf(column.title)));
  let surplus = widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1)) - widthMax;
  while (surplus > 0) {
    const widest = widths
      .map((width, i) => ({ i, spare: width - (least[i] ?? 0), width }))
      .filter(({ spare }) => spare > 0)
      .sort((a, b) => b.width - a.width)[0];
    if (widest === undefined) return;
    widths[widest.i] = widest.width - 1;
    surplus -= 1;
  }
}
