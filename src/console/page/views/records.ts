/** One record at a time, read-only. */
import { html, type TemplateResult } from 'lit-html';
import { agoOf } from '../../model/words.ts';
import { record } from '../app.ts';
import { now } from '../draw.ts';
import { empty, facts, instead, moment, panel, paragraph, quietly, searchField, top, typed } from '../parts.ts';
import { addressOf, name } from '../route.ts';
import type { RecordShown } from '../server.ts';

const open = instead((event) => {
  location.hash = addressOf('records', typed(event));
});

export const recordsView = (): TemplateResult => html`
    ${top('Records', 'JSON values with a version and a fence floor. Read only.')}
    <form class="tools" role="search" @submit=${open}>
      ${searchField('Key', 'wallet:42', name)}
      <button class="primary">Read</button>
    </form>
    ${name ? recordState() : noKey()}
  `;

const noKey = (): TemplateResult =>
  empty(
    'Which record?',
    paragraph('Type its key above. A service does not list its records, and this page never writes one.'),
    quietly(html`<code>holdfast record put hits 1</code> makes one.`),
  );

function recordState(): TemplateResult {
  if (record?.key !== name) return quietly('Reading …');
  if (record.record) return shown(record.record);
  if (record.error?.code === 'not-found') {
    return empty(
      html`There is no record <code>${name}</code>.`,
      paragraph('It was never written, was deleted, or has expired.'),
    );
  }
  return paragraph(record.error?.message ?? '', 'note');
}

function shown({ key, value, version, fence, updatedAt }: RecordShown): TemplateResult {
  const at = Date.parse(updatedAt);
  return panel(
    'record',
    'Record',
    html`<code>${key}</code>`,
    html`${facts(
      ['Version', version],
      ['Fence floor', fence ?? 'none: no fenced write yet'],
      ['Written', moment(at, agoOf(now() - at))],
    )}<pre class="json" tabindex="0" aria-label="Value">${pretty(JSON.stringify(value, null, 2))}</pre>`,
  );
}

/** A string, with a colon if it is a key, or a number, `true`, `false` or `null`. */
const tokens = /("(?:[^"\\]|\\.)*")(:)?|[\w.+-]+/g;
/** A larger value is shown without colours, because each coloured part is an element. */
const coloursMax = 50_000;

/** The text with colours. Each part is inserted as text and never as markup. */
function pretty(text: string): readonly unknown[] {
  if (text.length > coloursMax) return [text];
  const parts: unknown[] = [];
  let last = 0;
  for (const { 0: whole, 1: string, 2: colon, index } of text.matchAll(tokens)) {
    const kind = colon ? 'key' : string ? 'string' : 'literal';
    parts.push(text.slice(last, index), html`<span class=${kind}>${string ?? whole}</span>`, colon);
    last = index + whole.length;
  }
  return [...parts, text.slice(last)];
}
