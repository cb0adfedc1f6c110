import type { Answer, Decision, Facts, LockCommand, SessionFact } from '../../../src/lock/commands.ts';
import { decide } from '../../../src/lock/decide.ts';
import { eventsBetween, type LockEvent } from '../../../src/lock/events.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { type LockState, unusedLock } from '../../../src/lock/state.ts';
import { type EpochMs, epochMs } from '../../../src/time/clock.ts';
import { startOfTime } from '../../support/lock-worlds.ts';

/** The leases, by the names of their owners. */
export const alice = 'lease-of-alice-0000';
export const bob = 'lease-of-bob-000000';
export const carol = 'lease-of-carol-0000';
export const dave = 'lease-of-dave-00000';

/** One lock that a test drives command by command, in time that passes only if the test says so. */
export class LockStory {
  state: LockState;
  now: EpochMs = startOfTime;
  last: Decision | undefined;
  /** The events of the last command. */
  events: readonly LockEvent[] = [];
  /** True if the last command left the same state object, so that there is nothing to write. */
  unchanged = true;
  readonly sessions = new Map<string, SessionFact>();

  constructor(state: LockState = unusedLock) {
    this.state = state;
  }

  get facts(): Facts {
    return { now: this.now, graceMs: lockLimits.graceMs, sessions: this.sessions };
  }

  pass(ms: number): this {
    this.now = epochMs(this.now + ms);
    return this;
  }

  /** Applies a command and returns its answer. */
  tell(command: LockCommand): Answer {
    this.last = decide(this.state, command, this.facts);
    this.events = this.last.next === this.state ? [] : eventsBetween(this.state, this.last.next);
    this.unchanged = this.last.next === this.state;
    this.state = this.last.next;
    return this.last.answer;
  }

  /** Like `tell`, for commands that only prepare the test. */
  after(...commands: readonly LockCommand[]): this {
    for (const command of commands) this.tell(command);
    return this;
  }

  get holders(): string[] {
    return this.state.holders.map(({ leaseId }) => leaseId);
  }

  get queue(): string[] {
    return this.state.queue.map(({ leaseId }) => leaseId);
  }

  get eventTypes(): string[] {
    return this.events.map(({ type }) => type);
  }

  openSession(sessionId: string, ttlMs = 30_000): this {
    this.sessions.set(sessionId, { alive: true, expiresAt: epochMs(this.now + ttlMs) });
    return this;
  }

  endSession(sessionId: string, how: 'ended' | 'expired'): this {
    this.sessions.set(sessionId, { alive: false, endedAt: this.now, how });
    return this;
  }
}
