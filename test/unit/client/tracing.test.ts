/** A tracer that fails must not break a lock, and a listener that fails must not break the client. */
import { describe, expect, it } from 'vitest';
import { observer } from '../../../src/client/observer.ts';
import { safeTracing, type TracedHold } from '../../../src/client/tracing.ts';

const wanted = { namespace: 'test', locks: ['a'] };
const grant = { fences: [7], waitedMs: 5 };
const broken = () => {
  throw new Error('broken tracer');
};

describe('a tracer', () => {
  it('learns of the wait, the grant, the work and the first end', () => {
    const told: unknown[] = [];
    const hold: TracedHold = {
      run: (work) => {
        told.push('run');
        return work();
      },
      end: (...how) => void told.push(how),
    };
    const tracing = safeTracing({
      wait: (asked) => {
        told.push(asked);
        return {
          granted: (given) => {
            told.push(given);
            return hold;
          },
          failed: (error) => void told.push(error),
        };
      },
    });
    const wait = tracing.wait(wanted);
    wait.failed('not yet');
    const held = wait.granted(grant);
    expect(held.run(() => 42)).toBe(42);
    held.end('lost', 'why');
    held.end('released');
    expect(told).toEqual([wanted, 'not yet', grant, 'run', ['lost', 'why']]);
  });

  it.each([
    ['there is none', undefined],
    ['it fails at the wait', { wait: broken }],
    ['it fails at the grant', { wait: () => ({ granted: broken, failed: broken }) }],
    [
      'it fails at the end',
      { wait: () => ({ granted: () => ({ run: <T>(w: () => T) => w(), end: broken }), failed: broken }) },
    ],
  ])('does not break the lock if %s', (_, tracing) => {
    const wait = safeTracing(tracing).wait(wanted);
    wait.failed(new Error('refused'));
    const hold = wait.granted(grant);
    expect(hold.run(() => 42)).toBe(42);
    hold.end('released');
  });
});

describe('an observer', () => {
  it('gets every event, and may fail', () => {
    const seen: unknown[] = [];
    const event = { type: 'breaker', state: 'open' } as const;
    observer((told) => void seen.push(told))(event);
    observer(broken)(event);
    observer(undefined)(event);
    expect(seen).toEqual([event]);
  });
});
