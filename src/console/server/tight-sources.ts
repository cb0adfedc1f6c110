/** Removes parts of the page's sources that browsers do not need and that esbuild keeps. */
import { readFile } from 'node:fs/promises';
import type { Plugin } from 'esbuild';

/** Shortens the names of colours and sizes. No script uses them. */
export const shortVariables: Plugin = {
  name: 'short-variables',
  setup(build) {
    build.onLoad({ filter: /console[\\/]page[\\/].*\.css$/ }, async ({ path }) => {
      const sheet = await readFile(path, 'utf8');
      const names = [...new Set(sheet.match(/--[a-z][a-z-]*/g))];
      const short = new Map(names.map((name, index) => [name, `--${index.toString(36)}`]));
      const contents = sheet.replace(
        /(--[a-z][a-z-]*)(: )?/g,
        (_, name, colon) => `${short.get(name)}${colon ? ':' : ''}`,
      );
      return { contents, loader: 'css' };
    });
  },
};

/** A page or a picture without line breaks and indentation. */
export const tightMarkup = (markup: string): string => markup.replace(/\s*\n\s*/g, '');

/** Removes line breaks and indentation in templates, and quotes around plain values. */
export const tightTemplates: Plugin = {
  name: 'tight-templates',
  setup(build) {
    build.onLoad({ filter: /console[\\/]page[\\/].*\.ts$/ }, async ({ path }) => ({
      contents: tightened(await readFile(path, 'utf8')),
      loader: 'ts',
    }));
  },
};

/** The source with every template of `html` and `svg` shortened. */
export function tightened(source: string): string {
  const start = /\b(?:html|svg)`/g;
  let text = '';
  let at = 0;
  for (let found = start.exec(source); found !== null; found = start.exec(source)) {
    const from = found.index + found[0].length;
    const template = readTemplate(source, from, true);
    text += source.slice(at, from) + template.text;
    at = template.end;
    start.lastIndex = at;
  }
  return text + source.slice(at);
}

interface Part {
  readonly text: string;
  /** The index after its closing character. */
  readonly end: number;
}

/** Reads a template after its opening backtick. */
function readTemplate(source: string, from: number, isMarkup: boolean): Part {
  let text = '';
  let inTag = false;
  for (let at = from; at < source.length; ) {
    const chunk = /(?:[^`$\\]|\\[\s\S]|\$(?!\{))*/y;
    chunk.lastIndex = at;
    const fixed = chunk.exec(source)?.[0] ?? '';
    at += fixed.length;
    if (isMarkup) [text, inTag] = [text + shortened(fixed, inTag), inTagAfter(fixed, inTag)];
    else text += fixed;
    if (source[at] === '`') return { text: `${text}\``, end: at + 1 };
    const expression = readExpression(source, at + 2);
    text += `\${${expression.text}`;
    at = expression.end;
  }
  throw new Error('A template of the page does not end.');
}

/** Reads the text between `${` and its `}`. It does not understand regular expressions, so templates must not contain them. */
function readExpression(source: string, from: number): Part {
  let text = '';
  let depth = 1;
  for (let at = from; at < source.length; ) {
    const token = /'(?:[^'\\\n]|\\.)*'|\/\/.*|\/\*[\s\S]*?\*\/|(?:html|svg)?`|[\s\S]/y;
    token.lastIndex = at;
    const found = token.exec(source)?.[0] ?? '';
    at += found.length;
    text += found;
    if (found.endsWith('`')) {
      const inner = readTemplate(source, at, found !== '`');
      text += inner.text;
      at = inner.end;
    } else if (found === '{') depth += 1;
    else if (found === '}' && --depth === 0) return { text, end: at };
  }
  throw new Error('An expression in a template of the page does not end.');
}

const inTagAfter = (fixed: string, before: boolean): boolean =>
  /[<>]/.test(fixed) ? fixed.lastIndexOf('<') > fixed.lastIndexOf('>') : before;

/** The fixed text between two expressions. */
function shortened(fixed: string, startsInTag: boolean): string {
  let inTag = startsInTag;
  const marks = /[<>]|\s+\/>|\s*\n\s*|="[\w.#-]+"(?=>|\s+[^/\s])/g;
  return fixed.replace(marks, (found, offset: number) => {
    if (found === '<' || found === '>') {
      inTag = found === '<';
      return found;
    }
    if (found.startsWith('=')) return inTag ? `=${found.slice(2, -1)}` : found;
    if (found.endsWith('/>')) {
      inTag = false;
      return '/>';
    }
    const before = fixed[offset - 1] ?? '';
    const after = fixed[offset + found.length] ?? '';
    if (inTag) return after === '>' ? '' : ' ';
    // Words keep a space. Elements and expressions on their own lines need none.
    return (before === '' || before === '>') && (after === '' || after === '<') ? '' : ' ';
  });
}
