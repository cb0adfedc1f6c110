import { ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readTimer, SqsTimers } from '../../src/notify/aws/timers.ts';
import { TimerNotes } from '../../src/store/notices.ts';
import { type EpochMs, epochMs } from '../../src/time/clock.ts';
import { freshTable } from '../support/engine.ts';

let queue: FauxqsServer;
let client: SQSClient;
let notes: TimerNotes;
let queueUrl: string;
let now: EpochMs;
let timers: SqsTimers;
let count = 0;

beforeAll(async () => {
  queue = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
  client = new SQSClient({
    endpoint: `http://127.0.0.1:${queue.port}`,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  notes = new TimerNotes((await freshTable()).access);
});

afterAll(async () => {
  client.destroy();
  await queue.stop();
});

beforeEach(() => {
  count += 1;
  queueUrl = queue.createQueue(`timers-${count}`).queueUrl;
  now = epochMs(1_800_000_000_000);
  timers = new SqsTimers({ client, queueUrl, notes, clock: { now: () => now } });
});

const key = () => ({ namespace: 'contract', name: `lock-${count}` });
const delayed = () => queue.inspectQueue(`timers-${count}`)?.messages.delayed ?? [];
const firesIn = () => delayed().map(({ body }) => readTimer(body).firesAt - now);

describe('timers as delayed messages', () => {
  it('fires no sooner than asked, and less than a second late', async () => {
    await timers.arm(key(), epochMs(now + 5_250));
    expect(firesIn()).toEqual([6_000]);
  });

  it('delivers the message, which names its lock', async () => {
    await timers.arm(key(), now);
    const { Messages } = await client.send(new ReceiveMessageCommand({ QueueUrl: queueUrl, WaitTimeSeconds: 1 }));
    expect(Messages?.map(({ Body }) => readTimer(Body ?? ''))).toEqual([{ key: key(), firesAt: now }]);
  });

  it('adds none if one fires in time, and one if it would be late', async () => {
    await timers.arm(key(), epochMs(now + 10_000));
    await timers.arm(key(), epochMs(now + 10_000));
    await timers.arm(key(), epochMs(now + 60_000));
    expect(firesIn()).toEqual([10_000]);
    await timers.arm(key(), epochMs(now + 3_000));
    expect(firesIn().sort()).toEqual([10_000, 3_000]);
  });

  it('waits an hour with a chain of messages of 15 minutes', async () => {
    const dueAt = epochMs(now + 3_600_000);
    await timers.arm(key(), dueAt);
    for (let link = 1; link <= 4; link++) {
      expect(delayed()).toHaveLength(link);
      const { firesAt } = readTimer(delayed().at(-1)?.body ?? '');
      expect(firesAt).toBe(now + 900_000);
      // The host that is called may be a little behind the one that armed.
      now = epochMs(firesAt - 50);
      await timers.arm(key(), dueAt, firesAt);
    }
    expect(readTimer(delayed().at(-1)?.body ?? '').firesAt - dueAt).toBeLessThan(1_000);
    expect(delayed()).toHaveLength(5);
  });

  it('lets the chain of a second message for the same lock end', async () => {
    await timers.arm(key(), epochMs(now + 10_000));
    await timers.arm(key(), epochMs(now + 3_000));
    const [late, early] = delayed()
      .map(({ body }) => readTimer(body).firesAt)
      .sort((one, other) => other - one);
    now = epochMs(now + 3_000);
    await timers.arm(key(), epochMs(now + 20_000), early);
    expect(delayed()).toHaveLength(3);
    now = late as EpochMs;
    await timers.arm(key(), epochMs(now + 13_000), late);
    expect(delayed()).toHaveLength(3);
  });

  it('arms again after a message that could not be sent', async () => {
    const broken = new SqsTimers({ client, queueUrl: `${queueUrl}-missing`, notes, clock: { now: () => now } });
    await expect(broken.arm(key(), epochMs(now + 5_000))).rejects.toThrow();
    await timers.arm(key(), epochMs(now + 5_000));
    expect(delayed()).toHaveLength(1);
  });
});
