import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ownFields, tightened } from '../../../src/console/server/bundle.ts';
import { openApiDocument } from '../../../src/http/openapi.ts';

/** With `@{` for what begins an expression. */
const source = (text: string) => text.replaceAll('@{', '$' + '{');

describe('templates of the page', () => {
  it.each([
    ['indentation between elements', 'html`\n  <p>\n    <b>a</b>\n  </p>\n`', 'html`<p><b>a</b></p>`'],
    ['no line breaks among words', 'html`<p>one\n   two</p>`', 'html`<p>one\n   two</p>`'],
    [
      'no space between a word and an element',
      'html`<b>a</b> waits for <i>b</i>`',
      'html`<b>a</b> waits for <i>b</i>`',
    ],
    ['lines around expressions', 'html`<p>\n  @{a}\n  @{b}\n</p>`', 'html`<p>@{a}@{b}</p>`'],
    [
      'lines inside of an expression too',
      'html`@{list.map((x) => html`<i>\n  @{x}\n</i>`)}`',
      'html`@{list.map((x) => html`<i>@{x}</i>`)}`',
    ],
    ['quotes around one word', 'html`<a b="1" c=@{x} d="e">`', 'html`<a b=1 c=@{x} d=e>`'],
    ['no quotes if a slash follows', 'svg`<path d="M0"/>`', 'svg`<path d="M0"/>`'],
    ['no quotes around several words', 'html`<p class="a b">`', 'html`<p class="a b">`'],
    ['nothing of the code around them', 'if (a > b) {\n  c = `d`;\n}\n', 'if (a > b) {\n  c = `d`;\n}\n'],
  ])('lose %s', (_, loose, tight) => expect(tightened(source(loose))).toBe(source(tight)));
});

describe('the fields that have shorter names in the bundle', () => {
  /** Every word that the service's answers, or the parts of the page that speak to it, may use for a field. */
  const wordsOf = (text: string) => new Set(text.match(/\w+/g));
  const read = (path: string) => readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), 'utf8');

  it('are not in the answers of the service or of the server part', () => {
    const words = wordsOf(
      JSON.stringify(openApiDocument('1')) +
        ['console', 'questions', 'relay'].map((file) => read(`src/console/server/${file}.ts`)).join(),
    );
    expect(ownFields.filter((field) => words.has(field))).toEqual([]);
  });

  it('are not names of the browser or of the language', () => {
    const libraries = globSync('node_modules/@typescript/*/lib/lib.*.d.ts');
    expect(libraries.length).toBeGreaterThan(50);
    const words = wordsOf(libraries.map((file) => readFileSync(file, 'utf8')).join());
    expect(words.has('addEventListener')).toBe(true);
    expect(ownFields.filter((field) => words.has(field))).toEqual([]);
  });

  it('all exist', () => {
    const page = globSync('src/console/{page,model}/**/*.ts')
      .map((file) => readFileSync(file, 'utf8'))
      .join();
    const words = wordsOf(page);
    expect(ownFields.filter((field) => !words.has(field))).toEqual([]);
  });
});
