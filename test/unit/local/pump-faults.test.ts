import { describe, expect, it, vi } from 'vitest';
import { FaultLog, faultOf } from '../../../src/local/pump/faults.ts';
import { epochMs } from '../../../src/time/clock.ts';

function world() {
  let nowMs = 0;
  const logger = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const log = new FaultLog(logger, { now: () => epochMs(nowMs) });
  const pass = (durationMs: number) => {
    nowMs += durationMs;
  };
  return { log, logger, pass };
}

describe('FaultLog', () => {
  it('says once that a source fails, however long it does, and how long it was when it works again', () => {
    const { log, logger, pass } = world();
    for (let time = 1; time <= 60; time += 1) {
      expect(log.failed('shard', new Error('down'))).toBe(time);
      pass(1_000);
    }
    log.worked('shard');
    log.worked('shard');
    expect(logger.warn).toHaveBeenCalledOnce();
    expect(logger.info.mock.calls).toEqual([[expect.any(String), { source: 'shard', failures: 60, lastedMs: 60_000 }]]);
  });

  it('stays quiet about a source that flaps, and keeps sources apart', () => {
    const { log, logger, pass } = world();
    for (let time = 0; time < 50; time += 1) {
      expect(log.failed('flapping', new Error('down'))).toBe(1);
      log.worked('flapping');
      pass(100);
    }
    expect(logger.warn).toHaveBeenCalledTimes(1);
    expect(logger.info).toHaveBeenCalledTimes(1);
    log.failed('other', new Error('down'));
    expect(logger.warn).toHaveBeenCalledTimes(2);
  });
});

describe('faultOf', () => {
  it.each([
    ['ExpiredIteratorException', 'expired'],
    ['TrimmedDataAccessException', 'trimmed'],
    ['ResourceNotFoundException', 'gone'],
    ['ValidationException', 'refused'],
    ['LimitExceededException', 'unreachable'],
    ['toString', 'unreachable'],
  ])('takes %s for %s', (name, fault) => {
    expect(faultOf(Object.assign(new Error('no'), { name }))).toBe(fault);
  });

  it('treats a value that is no error as an engine that fails', () => {
    expect(faultOf(null)).toBe('unreachable');
    expect(faultOf('refused')).toBe('unreachable');
  });
});
