/** The text of an empty namespace: how to make the first lock. */
import { html, type TemplateResult } from 'lit-html';
import { about } from '../app.ts';
import { empty, paragraph, quietly } from '../parts.ts';
import { namespace } from '../route.ts';

export const firstLock = (): TemplateResult =>
  empty(
    html`No lock was used in <code>${namespace}</code> yet.`,
    paragraph('Make the first one. It appears here within a second, and its bar shrinks until the lease ends.'),
    copyable(firstLine()),
    quietly('Is it another namespace? Type its name above: a service does not list them.'),
  );

/** A shell command that makes the first lock. A signed request needs the command `holdfast`. */
function firstLine(): string {
  const { serviceUrl = '', auth = 'none' } = about ?? {};
  if (auth === 'sigv4') {
    return `npx holdfast acquire wallet:42 --lease 60s --sigv4 -n ${namespace} --url ${serviceUrl}`;
  }
  const token = auth === 'bearer' ? ` -H "authorization: Bearer $HOLDFAST_TOKEN"` : '';
  return `curl -s${token} -H 'content-type: application/json' -d '{"leaseMs":60000,"owner":"me"}' \\\n  ${serviceUrl}/v1/${namespace}/locks/wallet:42/acquire`;
}

/** A shell command with a button that copies it. */
function copyable(text: string): TemplateResult {
  const copy = ({ target }: Event) => {
    const button = target as HTMLElement;
    const say = (word: string) => {
      button.textContent = word;
    };
    navigator.clipboard.writeText(text).then(
      () => say('Copied'),
      () => say('Copy it by hand'),
    );
    setTimeout(say, 1_500, 'Copy');
  };
  return html`<div class="copyable"><pre tabindex="0">${text}</pre><button @click=${copy}>Copy</button></div>`;
}
