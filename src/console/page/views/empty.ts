/** What an empty namespace says: how to make the first lock. */
import { html, type TemplateResult } from 'lit-html';
import type { App } from '../app.ts';
import { copyable } from './copyable.ts';

export function firstLock(app: App): TemplateResult {
  return html`<div class="empty">
    <h2>No lock was used in <code>${app.route.namespace}</code> yet.</h2>
    <p>Make the first one. It appears here within a second, and its bar shrinks until the lease ends.</p>
    ${copyable(firstLine(app))}
    <p class="quiet">Is it another namespace? Type its name above: a service does not list them.</p>
  </div>`;
}

/** The line that makes the first lock, for a shell. A signed request needs the command line. */
export function firstLine({ about, route }: App): string {
  const { serviceUrl = '', auth = 'none' } = about ?? {};
  if (auth === 'sigv4') {
    return `npx holdfast acquire wallet:42 --lease 60s --sigv4 -n ${route.namespace} --url ${serviceUrl}`;
  }
  const token = auth === 'bearer' ? ` -H "authorization: Bearer $HOLDFAST_TOKEN"` : '';
  return `curl -s${token} -H 'content-type: application/json' -d '{"leaseMs":60000,"owner":"me"}' \\
  ${serviceUrl}/v1/${route.namespace}/locks/wallet:42/acquire`;
}
