/** What stands around every view: where one is, where one can go, and whether what is shown is fresh. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { agoOf, clockOf } from '../../model/words.ts';
import type { App } from '../app.ts';
import { addressOf, views } from '../route.ts';
import { feedView } from './feed.ts';
import { lockView } from './lock.ts';
import { locksView } from './locks.ts';
import { recordsView } from './records.ts';
import { revokeDialog } from './revoke.ts';
import { sessionsView } from './sessions.ts';

const namespacePattern = '[a-z0-9][a-z0-9\\-]{0,62}';

export function shell(app: App): TemplateResult {
  if (app.refusal?.status === 401) return withoutToken();
  if (app.about === null)
    return html`<main class="alone"><p class="quiet">${app.refusal?.message ?? 'Opening …'}</p></main>`;
  return html`
    <a class="skip" href="#main" @click=${skip}>Skip to the content</a>
    <header class="bar">
      <a class="brand" href=${addressOf({ namespace: app.route.namespace, view: 'locks' })}>
        <img src="/console/icon.svg" alt="" width="22" height="22" /><span>Holdfast</span>
      </a>
      ${namespaceField(app)}
      <nav aria-label="Views">
        ${views.map(
          ({ view, title }) => html`<a
            href=${addressOf({ namespace: app.route.namespace, view })}
            aria-current=${view === app.route.view ? 'page' : nothing}
            >${title}</a
          >`,
        )}
      </nav>
      ${linkPill(app)}
    </header>
    <main id="main" class=${`view-${app.route.view}${app.route.name === '' ? '' : ' one'}`}>${viewOf(app)}</main>
    <footer class="bar">${statusLine(app)}</footer>
    <p class="spoken" role="status">${spoken(app)}</p>
    ${revokeDialog(app)}
  `;
}

function skip(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>('h1')?.focus();
}

function viewOf(app: App): TemplateResult {
  const { view, name } = app.route;
  if (view === 'sessions') return sessionsView(app);
  if (view === 'records') return recordsView(app);
  if (view === 'feed') return feedView(app);
  return name === '' ? locksView(app) : lockView(app, name);
}

function namespaceField(app: App): TemplateResult {
  const choose = (event: Event) => {
    event.preventDefault();
    const input = (event.currentTarget as HTMLElement).querySelector('input') as HTMLInputElement;
    if (!input.reportValidity() || input.value === app.route.namespace) return;
    app.navigate({ namespace: input.value, view: app.route.view, name: '' });
    input.blur();
  };
  return html`<form class="namespace" @submit=${choose} @change=${choose}>
    <label for="namespace">Namespace</label>
    <input
      id="namespace"
      list="namespaces"
      required
      spellcheck="false"
      autocomplete="off"
      autocapitalize="none"
      pattern=${namespacePattern}
      title="1 to 63 of a-z, 0-9 and -, not starting with -"
      .value=${app.route.namespace}
    />
    <datalist id="namespaces">${(app.about?.namespaces ?? []).map((name) => html`<option value=${name}></option>`)}</datalist>
  </form>`;
}

const linkWords = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting',
  unwatched: 'Polling',
  lost: 'Disconnected',
} as const;

const linkPill = (app: App): TemplateResult =>
  html`<span class="pill ${app.link}"><i></i>${linkWords[app.link]}</span>`;

function statusLine(app: App): TemplateResult {
  const { link, staleSince, trouble, notice } = app;
  const url = app.about?.serviceUrl ?? '';
  if (notice !== '') return html`<span class="notice">${notice}</span>`;
  if (link === 'lost' && staleSince !== null) {
    return html`<span class="warn">The console does not answer. What you see is as of ${clockOf(staleSince)}; it comes back by itself.</span>`;
  }
  if ((link === 'reconnecting' || link === 'connecting') && staleSince !== null) {
    return html`<span class="warn">No events from the service since ${clockOf(staleSince)}. Trying again.</span>${
      trouble === null ? nothing : html`<span class="quiet">${trouble.message}</span>`
    }`;
  }
  if (trouble !== null) return html`<span class="warn">${trouble.message}</span>`;
  const last = app.lastEventAt === 0 ? 'no event yet' : `last event ${agoOf(app.now() - app.lastEventAt)}`;
  const how = link === 'unwatched' ? 'This service sends no events: the page looks every few seconds.' : last;
  return html`<span>${how}</span><span class="quiet">${url}${app.about?.allowRevoke ? ' · may revoke' : ' · reads only'}</span>`;
}

/** What a screen reader says when it changes: not the seconds that pass. */
function spoken({ notice, link }: App): string {
  if (notice !== '') return notice;
  return link === 'lost' || link === 'reconnecting' ? `${linkWords[link]}. What is shown may be old.` : linkWords[link];
}

const withoutToken = (): TemplateResult => html`<main class="alone">
  <h1 tabindex="-1">This console needs its token</h1>
  <p>
    Open the address that was printed when it started. It looks like
    <code>http://127.0.0.1:4100/console?token=…</code> and lets this browser in.
  </p>
  <p class="quiet">
    A service that keeps its data keeps the token too. With <code>--memory</code>, and with <code>holdfast console</code>,
    each start has a new one.
  </p>
</main>`;
