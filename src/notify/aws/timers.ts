import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { lockLimits } from '../../lock/limits.ts';
import type { LockKey } from '../../lock/state.ts';
import type { TimerNotes } from '../../store/notices.ts';
import { after, type Clock, type EpochMs, epochMs, systemClock } from '../../time/clock.ts';
import type { LockTimers } from '../ports.ts';

/** The longest delay of an SQS message. For later times there is a chain of messages: a look that comes early arms the next one. */
const delaySecondsMax = 900;

export interface TimerMessage {
  readonly namespace: string;
  readonly lock: string;
  readonly firesAt: number;
}

/**
 * Timers as delayed messages. A queue can't be searched, so a note for each lock says when its timer fires. If that is in time, no second
 * message is sent. The message is sent first, and the note is written after it. If the process dies in between, there is one message too
 * many, and its chain ends when it finds the note of another timer. There is never one too few.
 */
export class SqsTimers implements LockTimers {
  readonly #client: SQSClient;
  readonly #queueUrl: string;
  readonly #notes: TimerNotes;
  readonly #clock: Clock;

  constructor(options: { client: SQSClient; queueUrl: string; notes: TimerNotes; clock?: Clock }) {
    this.#client = options.client;
    this.#queueUrl = options.queueUrl;
    this.#notes = options.notes;
    this.#clock = options.clock ?? systemClock;
  }

  async arm(key: LockKey, at: EpochMs, fired?: EpochMs): Promise<void> {
    const now = this.#clock.now();
    const noted = await this.#notes.read(key);
    // Whole seconds, rounded up, because a timer that fires early finds nothing to do. So a waiter may learn of its grant a second late.
    const delaySeconds = Math.min(delaySecondsMax, Math.max(0, Math.ceil((at - now) / 1_000)));
    const firesAt = after(now, delaySeconds * 1_000);
    // By this clock the timer will fire soon. By another clock it may already have fired and found nobody.
    const isYetToFire = noted !== undefined && noted !== fired && noted > after(now, lockLimits.graceMs);
    const isCovered = isYetToFire && noted <= firesAt;
    if (isCovered) return;
    const message: TimerMessage = { namespace: key.namespace, lock: key.name, firesAt };
    await this.#client.send(
      new SendMessageCommand({
        QueueUrl: this.#queueUrl,
        MessageBody: JSON.stringify(message),
        DelaySeconds: delaySeconds,
      }),
    );
    await this.#notes.write(key, firesAt);
  }
}

/** The lock of a timer that fired. Throws if the message is not ours. */
export function readTimer(body: string): { readonly key: LockKey; readonly firesAt: EpochMs } {
  const { namespace, lock, firesAt } = JSON.parse(body) as Partial<TimerMessage>;
  if (typeof namespace !== 'string' || typeof lock !== 'string' || typeof firesAt !== 'number') {
    throw new TypeError('A timer message must have a namespace, a lock and the time at which it fires.');
  }
  return { key: { namespace, name: lock }, firesAt: epochMs(firesAt) };
}
