import { describe, expect, it } from 'vitest';
import { Lag } from '../../../src/local/pump/lag.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';

function world() {
  const time = new VirtualTime();
  const lines: [string, string, unknown?][] = [];
  const log = {
    info: (line: string, fields?: object) => void lines.push(['info', line, fields]),
    warn: (line: string, fields?: object) => void lines.push(['warn', line, fields]),
    error: () => {},
  };
  const lag = new Lag('deliveries', log, time);
  /** Handles a page whose oldest record was written so long ago. */
  const handle = (agoMs: number) => lag.handled(time.now() - agoMs);
  return { time, lag, lines, handle };
}

describe('a pump', () => {
  it('knows how far behind it is, and that it is not if nothing is left', () => {
    const { lag, handle } = world();
    handle(1_234);
    expect(lag.behindMs).toBe(1_234);
    lag.handled();
    expect(lag.behindMs).toBe(0);
    // The clock of another writer may be ahead.
    handle(-50);
    expect(lag.behindMs).toBe(0);
  });

  it('says it in the log once it is far behind, then seldom, and once when it has caught up', async () => {
    const { time, lines, handle } = world();
    handle(4_999);
    expect(lines).toEqual([]);
    for (let second = 0; second < 31; second++) {
      handle(5_000 + second);
      await time.advance(1_000);
    }
    const behind = 'stream pump: behind the writes to the table';
    expect(lines).toEqual([
      ['warn', behind, { pump: 'deliveries', behindMs: 5_000 }],
      ['warn', behind, { pump: 'deliveries', behindMs: 5_030 }],
    ]);
    handle(1_000);
    expect(lines).toHaveLength(2);
    handle(999);
    handle(0);
    expect(lines.slice(2)).toEqual([
      ['info', 'stream pump: caught up with the writes to the table', { pump: 'deliveries' }],
    ]);
    handle(6_000);
    expect(lines).toHaveLength(4);
  });
});
