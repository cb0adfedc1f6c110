/** The frame around every view: the current view, the links to others, and the state of the connection. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { agoOf, capital, clockOf } from '../../model/words.ts';
import { about } from '../app.ts';
import { refusal, trouble } from '../asking.ts';
import { now } from '../draw.ts';
import { lastEventAt, link, staleSince } from '../knowledge.ts';
import { instead } from '../parts.ts';
import { addressOf, name, namespace, view, views } from '../route.ts';
import { behindMs } from '../server.ts';
import { changeDialog, notice, permissionWords } from './change.ts';
import { feedView } from './feed.ts';
import { lockView } from './lock.ts';
import { locksView } from './locks.ts';
import { recordsView } from './records.ts';
import { sessionsView } from './sessions.ts';

const namespacePattern = '[a-z0-9][a-z0-9\\-]{0,62}';

export function shell(): TemplateResult {
  if (refusal?.status === 401) return withoutToken();
  if (!about) return html`<main class="alone"><p class="quiet">${refusal?.message ?? 'Opening …'}</p></main>`;
  return html`
    <a class="skip" href="#main" @click=${skip}>Skip to the content</a>
    <header class="bar">
      <a class="brand" href=${addressOf('locks')}><img src="/console/icon.svg" alt="" width="22" height="22" /><span>Holdfast</span></a>
      ${namespaceField(about.namespaces)}
      <nav aria-label="Views">
        ${views.map((one) => html`<a href=${addressOf(one)} aria-current=${one === view ? 'page' : nothing}>${capital(one)}</a>`)}
      </nav>
      <span class="pill ${link}"><i></i>${linkWords()}</span>
    </header>
    <main id="main" class="view-${view} ${name && 'one'}">${viewOf()}</main>
    <footer class="bar">${statusLine(about.serviceUrl)}</footer>
    <p class="spoken" role="status">${spoken()}</p>
    ${changeDialog()}
  `;
}

const skip = instead(() => document.querySelector('h1')?.focus());

function viewOf(): TemplateResult {
  const drawn = {
    locks: name ? lockView : locksView,
    sessions: sessionsView,
    records: recordsView,
    feed: feedView,
  };
  return drawn[view]();
}

function namespaceField(known: readonly string[]): TemplateResult {
  const choose = instead(({ currentTarget }) => {
    const form = currentTarget as HTMLFormElement;
    const input = form.elements[0] as HTMLInputElement;
    if (!form.reportValidity() || input.value === namespace) return;
    location.hash = addressOf(view, '', {}, input.value);
    input.blur();
  });
  return html`<form @submit=${choose} @change=${choose}>
    <input class="name" aria-label="Namespace" list="namespaces" required spellcheck="false" autocomplete="off"
      autocapitalize="none" pattern=${namespacePattern} title="1 to 63 of a-z, 0-9 and -, not starting with -"
      .value=${namespace} />
    <datalist id="namespaces">${known.map((one) => html`<option value=${one}></option>`)}</datalist>
  </form>`;
}

const linkWords = (): string => ({ unwatched: 'Polling', lost: 'Disconnected' })[link as string] ?? capital(link);

const warning = (words: string): TemplateResult => html`<span class="warn">${words}</span>`;

function statusLine(url: string): TemplateResult {
  if (notice) return html`<span class="notice">${notice}</span>`;
  if (staleSince) {
    const since = clockOf(staleSince);
    return link === 'lost'
      ? warning(`The console does not answer. What you see is as of ${since}; it comes back by itself.`)
      : warning(`No events from the service since ${since}. Trying again. ${trouble?.message ?? ''}`);
  }
  if (trouble) return warning(trouble.message);
  if (behindMs) return warning(`Deliveries are ${(behindMs / 1e3) | 0} s late`);
  const last = lastEventAt ? `last event ${agoOf(now() - lastEventAt)}` : 'no event yet';
  const how = link === 'unwatched' ? 'This service sends no events: the page looks every few seconds.' : last;
  return html`<span>${how}</span><span class="quiet">${url} · ${permissionWords()}</span>`;
}

/** The text that a screen reader reads out after a change. It has no seconds, which would change all the time. */
const spoken = (): string => notice || `${linkWords()}${/lost|rec/.test(link) ? '. What is shown may be old.' : ''}`;

const withoutToken = (): TemplateResult => html`<main class="alone">
  <h1 tabindex="-1">This console needs its token</h1>
  <p>
    Open the address that was printed when it started. It looks like
    <code>http://127.0.0.1:4100/console?token=…</code> and contains the token.
  </p>
  <p class="quiet">
    A service that keeps its data keeps the token too. With <code>--memory</code>, and with <code>holdfast console</code>,
    each start has a new one.
  </p>
</main>`;
