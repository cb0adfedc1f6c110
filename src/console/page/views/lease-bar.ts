/** The remaining time of a lease, as a bar that gets shorter. */
import { html, type TemplateResult } from 'lit-html';
import type { HolderPicture } from '../../model/lock-picture.ts';
import { wholeSpanOf } from '../../model/words.ts';
import { now } from '../draw.ts';

/** If less than this part is left, the lease will soon end or be renewed. */
const lowShare = 0.2;

export function leaseBar({ endsAt, leaseMs, sessionId }: HolderPicture): TemplateResult {
  const leftMs = Math.max(0, (endsAt ?? 0) - now());
  const share = Math.min(1, leftMs / (leaseMs || leftMs || 1));
  const how = endsAt === null ? 'open' : leftMs === 0 ? 'over' : share < lowShare ? 'low' : '';
  const words = endsAt === null ? (sessionId ? 'with its session' : '…') : leftMs ? wholeSpanOf(leftMs) : 'ran out';
  return html`<span class="lease ${how}"><small>${words}</small>${bar(share)}</span>`;
}

export const bar = (share: number): TemplateResult =>
  html`<i><b .style=${`transform:scaleX(${share.toFixed(3)})`}></b></i>`;
