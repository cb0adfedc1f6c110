import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { readArguments } from '../../../src/cli/arguments.ts';
import { serve } from '../../../src/cli/commands/serve.ts';
import { quietLog } from '../../../src/cli/serve-log.ts';
import { readLogHow } from '../../../src/cli/serve-options.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function listening() {
  const lines: string[] = [];
  const log = quietLog({ note: (line) => lines.push(line), error: (line) => lines.push(`error: ${line}`) });
  return { lines, log };
}

describe('the quiet log of serve', () => {
  it('sums requests up once a minute, and says nothing while nothing happens', () => {
    const { lines, log } = listening();
    for (let count = 0; count < 3; count++) log.info('request', { status: 200 });
    log.info('request', { status: 409, code: 'lock-held' });
    log.info('pump', { batch: 5 });
    expect(lines).toEqual([]);
    vi.advanceTimersByTime(60_000);
    expect(lines).toEqual(['4 requests · refused: lock-held 1 · 0 failed']);
    vi.advanceTimersByTime(600_000);
    log.end();
    expect(lines).toHaveLength(1);
  });

  it('prints a fault at once, with its innermost cause', () => {
    const { lines, log } = listening();
    const error = { message: 'The store failed.', cause: { message: 'connect ECONNREFUSED' } };
    log.error('request', { requestId: 'r1', route: 'GET /v1/health', status: 503, error });
    log.warn('The folder is nearly full.');
    expect(lines).toEqual([
      'error: GET /v1/health answered 503: connect ECONNREFUSED (request r1)',
      'The folder is nearly full.',
    ]);
    log.end();
    expect(lines.at(-1)).toBe('1 request · 1 failed');
  });
});

describe('--log', () => {
  const given = (...args: string[]) => readArguments(serve, args);

  it('is quiet in a terminal and JSON elsewhere, unless it is given', () => {
    expect(readLogHow(given(), {}, true)).toBe('quiet');
    expect(readLogHow(given(), {}, false)).toBe('json');
    expect(readLogHow(given('--log', 'json'), { HOLDFAST_LOG: 'quiet' }, true)).toBe('json');
    expect(readLogHow(given(), { HOLDFAST_LOG: 'quiet' }, false)).toBe('quiet');
    expect(() => readLogHow(given('--log', 'loud'), {}, true)).toThrow("--log expects json or quiet, but got 'loud'.");
    expect(() => readLogHow(given(), { HOLDFAST_LOG: 'x' }, true)).toThrow('HOLDFAST_LOG expects');
  });
});
