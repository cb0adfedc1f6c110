/** One record at a time, read-only. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { agoOf, momentOf } from '../../model/words.ts';
import type { App, RecordState } from '../app.ts';
import type { RecordShown } from '../server.ts';

export function recordsView(app: App): TemplateResult {
  const { name } = app.route;
  const open = (event: Event) => {
    event.preventDefault();
    const input = (event.currentTarget as HTMLElement).querySelector('input') as HTMLInputElement;
    if (input.value.trim() !== '') app.navigate({ view: 'records', name: input.value.trim() });
  };
  return html`
    <div class="top">
      <h1 tabindex="-1">Records</h1>
      <p class="quiet">JSON values with a version and a fence floor. Read only.</p>
    </div>
    <form class="tools" role="search" @submit=${open}>
      <label class="field grow"
        ><span>Key</span
        ><input type="search" spellcheck="false" autocomplete="off" autocapitalize="none" placeholder="wallet:42" .value=${name}
      /></label>
      <button type="submit" class="primary">Read</button>
    </form>
    ${name === '' ? noKey() : app.record?.key === name ? recordState(app, app.record) : html`<p class="quiet">Reading …</p>`}
  `;
}

const noKey = (): TemplateResult => html`<div class="empty">
  <h2>Which record?</h2>
  <p>Type its key above. A service does not list its records, and this page never writes one.</p>
  <p class="quiet"><code>holdfast record put hits 1</code> makes one.</p>
</div>`;

function recordState(app: App, { key, record, error }: RecordState): TemplateResult {
  if (record !== null) return shown(app, record);
  if (error?.code === 'not-found') {
    return html`<div class="empty"><h2>There is no record <code>${key}</code>.</h2><p>It was never written, was deleted, or has expired.</p></div>`;
  }
  return html`<p class="note">${error?.message ?? 'Reading …'}</p>`;
}

function shown(app: App, { key, value, version, fence, updatedAt }: RecordShown): TemplateResult {
  const at = Date.parse(updatedAt);
  const now = app.now();
  return html`<section class="panel record" aria-label="Record">
    <h2 class="name">${key}</h2>
    <dl class="numbers">
      <div><dt>Version</dt><dd class="number">${version}</dd></div>
      <div><dt>Fence floor</dt><dd class="number">${fence ?? 'none: no fenced write yet'}</dd></div>
      <div><dt>Written</dt><dd>${momentOf(at, now)} <span class="quiet">(${agoOf(now - at)})</span></dd></div>
    </dl>
    <pre class="json" tabindex="0" aria-label="Value">${pretty(JSON.stringify(value, null, 2) ?? 'null')}</pre>
  </section>`;
}

const tokens = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** A larger value is shown without colours: each is an element. */
const coloursMax = 50_000;

/** The text in its colours. Each part is put in as text. */
function pretty(text: string): readonly (string | TemplateResult)[] {
  if (text.length > coloursMax) return [text];
  const parts: (string | TemplateResult)[] = [];
  let last = 0;
  for (const match of text.matchAll(tokens)) {
    parts.push(text.slice(last, match.index));
    const [whole, string, colon] = match;
    const kind = colon !== undefined ? 'key' : string !== undefined ? 'string' : 'literal';
    parts.push(html`<span class=${kind}>${string ?? whole}</span>${colon ?? nothing}`);
    last = match.index + whole.length;
  }
  return [...parts, text.slice(last)];
}
