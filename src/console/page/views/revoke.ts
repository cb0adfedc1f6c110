/** Revokes a lease: the question before it, the request, and the notice after it. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { redraw } from '../draw.ts';
import { lookSoon } from '../knowledge.ts';
import { instead, typed } from '../parts.ts';
import { namespace } from '../route.ts';
import { type AskError, ask } from '../server.ts';

/** As many characters as the service takes. */
const reasonMax = 256;

const noticeMs = 6_000;

interface Revoking {
  readonly lock: string;
  readonly fence: number;
  readonly owner: string;
  readonly error?: string;
  readonly busy?: boolean;
}

export let revoking: Revoking | null = null;
export let notice = '';

export function setRevoking(next: Revoking | null): void {
  revoking = next;
  redraw();
}

async function revoke(reason: string): Promise<void> {
  if (!revoking || revoking.busy) return;
  const asked = revoking;
  const { lock, fence, owner } = asked;
  setRevoking({ ...asked, busy: true });
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
    setRevoking(null);
    lookSoon();
  } catch (error) {
    setRevoking({ ...asked, error: (error as AskError).message });
  }
}

const cancel = instead(() => setRevoking(null));

const submit = instead((event) => {
  const reason = typed(event);
  if (reason) void revoke(reason);
});

export function revokeDialog(): TemplateResult | typeof nothing {
  if (!revoking) return nothing;
  const { lock, fence, owner, error = '', busy = false } = revoking;
  return html`<dialog aria-labelledby="revoke-title" @cancel=${cancel}>
    <form @submit=${submit}>
      <h2 id="revoke-title">Take <span class="name">${lock}</span> away from <span class="name">${owner}</span>?</h2>
      <p>
        Its lease with fence <b class="number">${fence}</b> ends now, and the next waiter gets the lock. ${owner} may still be
        working: its late writes are refused only where the fence is checked.
      </p>
      <label class="field"
        ><span>Reason, shown in the history</span
        ><input required maxlength=${reasonMax} autocomplete="off" placeholder="stuck since Tuesday" autofocus
      /></label>
      <p class="warn" role="alert">${error}</p>
      <div class="buttons">
        <button type="button" @click=${cancel}>Keep it</button>
        <button class="danger" ?disabled=${busy}>${busy ? 'Revoking …' : 'Revoke'}</button>
      </div>
    </form>
  </dialog>`;
}
