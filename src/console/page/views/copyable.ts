import { html, type TemplateResult } from 'lit-html';

/** A line for a shell, with a button that copies it. */
export function copyable(text: string): TemplateResult {
  const copy = async (event: Event) => {
    const button = event.currentTarget as HTMLButtonElement;
    await navigator.clipboard.writeText(text).catch(() => undefined);
    button.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1_500);
  };
  return html`<div class="copyable"><pre tabindex="0">${text}</pre><button @click=${copy}>Copy</button></div>`;
}
