import type { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { beforeEach, describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { readTimer, SqsTimers } from '../../../src/notify/aws/timers.ts';
import type { TimerNotes } from '../../../src/store/notices.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { startOfTime } from '../../support/lock-worlds.ts';
import { memoryStores } from '../../support/memory-table.ts';

const key = { namespace: 'test', name: 'wallet' };
const now = epochMs(startOfTime);
let sent: number[];
let notes: TimerNotes;
let timers: SqsTimers;

beforeEach(() => {
  sent = [];
  notes = memoryStores().timerNotes;
  const client = {
    send: async ({ input }: SendMessageCommand) => void sent.push(readTimer(input.MessageBody ?? '').firesAt - now),
  };
  timers = new SqsTimers({
    client: client as unknown as SQSClient,
    queueUrl: 'timers',
    clock: { now: () => now },
    notes,
  });
});

describe('arming a timer', () => {
  it('relies on one that fires in time', async () => {
    await notes.write(key, epochMs(now + 2_000));
    await timers.arm(key, epochMs(now + 3_000));
    expect(sent).toEqual([]);
  });

  it('does not rely on one that may have fired already, by a clock that is ahead', async () => {
    await notes.write(key, epochMs(now + lockLimits.graceMs));
    await timers.arm(key, epochMs(now + 3_000));
    expect(sent).toEqual([3_000]);
  });

  it('does not rely on the timer that is being handled, even if its clock was far ahead', async () => {
    await notes.write(key, epochMs(now + 2_000));
    await timers.arm(key, epochMs(now + 3_000), epochMs(now + 2_000));
    expect(sent).toEqual([3_000]);
  });

  it('does not rely on one that fires too late', async () => {
    await notes.write(key, epochMs(now + 10_000));
    await timers.arm(key, epochMs(now + 3_000));
    expect(sent).toEqual([3_000]);
  });

  it('fires at once if the time has come, and after a quarter of an hour at the latest', async () => {
    await timers.arm(key, epochMs(now - 5_000));
    notes = memoryStores().timerNotes;
    await timers.arm(key, epochMs(now + 7_200_000));
    expect(sent).toEqual([0, 900_000]);
  });

  it('rounds up to whole seconds, because a timer that fires early finds nothing to do', async () => {
    await timers.arm(key, epochMs(now + 2_001));
    expect(sent).toEqual([3_000]);
    // The note says when it fires, and not when it should.
    expect(await notes.read(key)).toBe(now + 3_000);
  });

  it('writes when it fires, so the next one for the same time is not armed', async () => {
    await timers.arm(key, epochMs(now + 3_000));
    await timers.arm(key, epochMs(now + 3_000));
    expect(sent).toEqual([3_000]);
  });
});

describe('a timer that fired', () => {
  it('names its lock, and when it was to fire', () => {
    const body = JSON.stringify({ namespace: 'test', lock: 'wallet', firesAt: 7 });
    expect(readTimer(body)).toEqual({ key, firesAt: 7 });
  });

  it.each([
    { lock: 'wallet', firesAt: 7 },
    { namespace: 'test', firesAt: 7 },
    { namespace: 'test', lock: 'wallet' },
    { namespace: 'test', lock: 'wallet', firesAt: '7' },
  ])('is refused if it is not ours: %j', (message) => {
    const read = () => readTimer(JSON.stringify(message));
    expect(read).toThrow('A timer message must have a namespace, a lock and the time at which it fires.');
  });
});
