/** What is left of a lease, as a bar that shrinks. */
import { html, type TemplateResult } from 'lit-html';
import type { HolderPicture } from '../../model/lock-picture.ts';
import { wholeSpanOf } from '../../model/words.ts';

/** A lease with less than this left of it is about to end, or to be renewed. */
const lowShare = 0.2;

export function leaseBar({ endsAt, leaseMs, sessionId }: HolderPicture, now: number): TemplateResult {
  if (endsAt === null) {
    return html`<span class="lease open"><small>${sessionId === undefined ? '…' : 'with its session'}</small><i></i></span>`;
  }
  const leftMs = Math.max(0, endsAt - now);
  const share = leaseMs === null || leaseMs === 0 ? 1 : Math.min(1, leftMs / leaseMs);
  const how = leftMs === 0 ? 'over' : share < lowShare ? 'low' : '';
  return html`<span class="lease ${how}">
    <small>${leftMs === 0 ? 'ran out' : wholeSpanOf(leftMs)}</small>
    <i><b .style=${`transform:scaleX(${share.toFixed(3)})`}></b></i>
  </span>`;
}
