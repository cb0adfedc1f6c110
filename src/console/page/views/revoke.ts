/** The question before a revocation. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { ref } from 'lit-html/directives/ref.js';
import type { App } from '../app.ts';

/** As many characters as the service takes. */
const reasonMax = 256;

export function revokeDialog(app: App): TemplateResult | typeof nothing {
  const { revoking } = app;
  if (revoking === null) return nothing;
  const { lock, fence, owner, error, busy } = revoking;
  const submit = (event: Event) => {
    event.preventDefault();
    const reason = ((event.currentTarget as HTMLElement).querySelector('input') as HTMLInputElement).value.trim();
    if (reason !== '') void app.revoke(reason);
  };
  return html`<dialog
    aria-labelledby="revoke-title"
    ${ref((element) => {
      const dialog = element as HTMLDialogElement | undefined;
      // It is put into the page right after this, and can't be shown before.
      queueMicrotask(() => {
        if (dialog?.isConnected && !dialog.open) dialog.showModal();
      });
    })}
    @cancel=${(event: Event) => {
      event.preventDefault();
      app.cancelRevoke();
    }}
  >
    <form @submit=${submit}>
      <h2 id="revoke-title">Take <span class="name">${lock}</span> away from <span class="name">${owner}</span>?</h2>
      <p>
        Its lease with fence <b class="number">${fence}</b> ends now, and the next in the queue gets the lock. ${owner} may still
        be at work: only what checks the fence refuses its late writes.
      </p>
      <label class="field"
        ><span>Reason, for those who read the history</span
        ><input required maxlength=${reasonMax} autocomplete="off" placeholder="stuck since Tuesday" autofocus
      /></label>
      <p class="problem" role="alert">${error ?? ''}</p>
      <div class="buttons">
        <button type="button" @click=${() => app.cancelRevoke()}>Keep it</button>
        <button type="submit" class="danger" ?disabled=${busy}>${busy ? 'Revoking …' : 'Revoke'}</button>
      </div>
    </form>
  </dialog>`;
}
