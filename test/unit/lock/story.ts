import type { Answer, Decision, Facts, LockCommand, SessionFact } from '../../../src/lock/commands.ts';
import { decide } from '../../../src/lock/decide.ts';
import { eventsBetween, type LockEvent } from '../../../src/lock/events.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { type LockState, unusedLock } from '../../../src/lock/state.ts';
import { type EpochMs, epochMs } from '../../../src/time/clock.ts';
import { startOfTime } from '../../support/lock-worlds.ts';

/** Leases by the names that the stories give their owners. */
export const alice = 'lease-of-alice-0000';
export const bob = 'lease-of-bob-000000';
export const carol = 'lease-of-carol-0000';
export const dave = 'lease-of-dave-00000';

/** One lock whose story is told command by command, in time that passes only when the story says so. */
export class LockStory {
  state: LockState;
  now: EpochMs = startOfTime;
  last: Decision | undefined;
  /** What the last command made happen. */
  events: readonly LockEvent[] = [];
  /** Whether the last command left the very same state, so that there is nothing to write. */
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

  /** Carries out a command and tells what it is answered. */
  tell(command: LockCommand): Answer {
    this.last = decide(this.state, command, this.facts);
    this.events = this.last.next === this.state ? [] : eventsBetween(this.state, this.last.next);
    this.unchanged = this.last.next === this.state;
    this.state = this.last.next;
    return this.last.answer;
  }

  /** As `tell`, for commands that only prepare what the story is about. */
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
