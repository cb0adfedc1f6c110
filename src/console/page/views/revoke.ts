/** The question before a revocation. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { revoke, revoking, setRevoking } from '../app.ts';
import { instead, typed } from '../parts.ts';

/** As many characters as the service takes. */
const reasonMax = 256;

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
