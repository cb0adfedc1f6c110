/** The only change that a page can make. It revokes a lease: the button, the question, the request, and the notice after it. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { about } from '../app.ts';
import { redraw } from '../draw.ts';
import { lookSoon } from '../knowledge.ts';
import { instead, typed } from '../parts.ts';
import { namespace } from '../route.ts';
import { type AskError, ask } from '../server.ts';

/** As many characters as the service takes. */
const reasonMax = 256;

const noticeMs = 6_000;

interface Change {
  readonly lock: string;
  readonly fence: number;
  readonly owner: string;
  readonly error?: string;
  readonly busy?: boolean;
}

export let change: Change | null = null;
export let notice = '';

function setChange(next: Change | null): void {
  change = next;
  redraw();
}

/** Opens the question. Nothing if the console only reads. */
export const changeButton = (lock: string, fence: number, owner: string): TemplateResult | typeof nothing =>
  about?.mayChange
    ? html`<button class="danger" @click=${() => setChange({ lock, fence, owner })}>Revoke …</button>`
    : nothing;

export const permissionWords = (): string => (about?.mayChange ? 'may revoke' : 'reads only');

async function revoke(reason: string): Promise<void> {
  if (!change || change.busy) return;
  const asked = change;
  const { lock, fence, owner } = asked;
  setChange({ ...asked, busy: true });
  try {
    await ask([namespace, 'locks', lock, 'revoke'], '', {
      method: 'POST',
      body: JSON.stringify({ fence, reason }),
      headers: { 'content-type': 'application/json' },
    });
    notice = `Revoked: ${owner} no longer holds ${lock}.`;
    setTimeout(() => {
      notice = '';
    }, noticeMs);
    setChange(null);
    lookSoon();
  } catch (error) {
    setChange({ ...asked, error: (error as AskError).message });
  }
}

const cancel = instead(() => setChange(null));

const submit = instead((event) => {
  const reason = typed(event);
  if (reason) void revoke(reason);
});

export function changeDialog(): TemplateResult | typeof nothing {
  if (!change) return nothing;
  const { lock, fence, owner, error = '', busy = false } = change;
  return html`<dialog aria-labelledby="revoke-title" @cancel=${cancel}>
    <form @submit=${submit}>
      <h2 id="revoke-title">Take <span class="name">${lock}</span> away from <span class="name">${owner}</span>?</h2>
      <p>
        Its lease with fence <b class="number">${fence}</b> ends now, and the next waiter gets the lock. ${owner} may still be
        working: its late writes are refused only where the fence is checked.
      </p>
      <label class="field">
        <span>Reason, shown in the history</span>
        <input required maxlength=${reasonMax} autocomplete="off" placeholder="stuck since Tuesday" autofocus />
      </label>
      <p class="warn" role="alert">${error}</p>
      <div class="buttons">
        <button type="button" @click=${cancel}>Keep it</button>
        <button class="danger" ?disabled=${busy}>${busy ? 'Revoking …' : 'Revoke'}</button>
      </div>
    </form>
  </dialog>`;
}
