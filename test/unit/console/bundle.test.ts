import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ownFields } from '../../../src/console/server/bundle.ts';
import { tightened } from '../../../src/console/server/tight-sources.ts';
import { openApiDocument } from '../../../src/http/openapi.ts';

/** With `@{` for what begins an expression. */
const source = (text: string) => text.replaceAll('@{', '$' + '{');

describe('templates of the page', () => {
  it.each([
    ['indentation between elements', 'html`\n  <p>\n    <b>a</b>\n  </p>\n`', 'html`<p><b>a</b></p>`'],
    ['line breaks among words, but for a space', 'html`<p>one\n   two</p>`', 'html`<p>one two</p>`'],
    [
      'nothing between a word and an element',
      'html`<b>a</b> waits for\n  <i>b</i>`',
      'html`<b>a</b> waits for <i>b</i>`',
    ],
    [
      'line breaks between attributes, but for a space',
      'html`<a\n  b="1"\n  c=@{x}\n  d\n>`',
      'html`<a b=1 c=@{x} d>`',
    ],
    ['lines around expressions', 'html`<p>\n  @{a}\n  @{b}\n</p>`', 'html`<p>@{a}@{b}</p>`'],
    [
      'what is inside of an expression too',
      'html`@{list.map((x) => html`<i>\n  @{x}\n</i>`)}`',
      'html`@{list.map((x) => html`<i>@{x}</i>`)}`',
    ],
    ['no quotes where a slash follows', 'svg`<path d="M0"/><path d="1" />`', 'svg`<path d="M0"/><path d="1"/>`'],
    ['no quotes around several words', 'html`<p class="a b">`', 'html`<p class="a b">`'],
    ['no quotes in text', 'html`<p>x="1" y</p>`', 'html`<p>x="1" y</p>`'],
    ['nothing of other templates', 'const a = `one\n  @{html`<p>\n</p>`}`;', 'const a = `one\n  @{html`<p></p>`}`;'],
    ['nothing of braces and marks in strings', "html`@{f('}`', { a: 1 })}\n<p>`", "html`@{f('}`', { a: 1 })}<p>`"],
  ])('lose %s', (_, loose, tight) => expect(tightened(source(loose))).toBe(source(tight)));

  it('that do not end stop the build', () => {
    expect(() => tightened('html`<p>')).toThrow('does not end');
    expect(() => tightened(source('html`<p>@{a'))).toThrow('does not end');
  });
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
