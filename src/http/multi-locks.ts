import type { multiLockOperations } from '../contract/multi-locks.ts';
import type { ManyGrantBody, ManyReleaseBody, ManyWaitingBody } from '../contract/views.ts';
import { endsAt, remainingMs } from '../lock/view.ts';
import type { Refusal } from '../multi/plan.ts';
import { acquireAll, type MultiOutcome, releaseAll, renewAll } from '../service/multi.ts';
import { toIso } from '../time/clock.ts';
import { ownerAsked, refusalOf, renewalWithin, waitingBody, withinMaxima } from './locks.ts';
import type { Handlers } from './operations.ts';
import { Problem } from './problems.ts';
import type { Reply } from './request.ts';
import { sessionLost } from './sessions.ts';

export const multiLockHandlers: Handlers<keyof typeof multiLockOperations> = {
  async acquireLocks({ locks: context }, { parameters, body, caller, signal }) {
    const { locks, ...asked } = withinMaxima(context, body);
    const entries = locks.map((entry) => (typeof entry === 'string' ? { name: entry } : entry));
    const names = entries.map(({ name }) => name);
    const leaseId = asked.leaseId ?? context.newLeaseId();
    const many = { ...asked, entries, leaseId, ...ownerAsked(asked, caller) };
    const outcome = await acquireAll(context, parameters.ns, many, signal);
    if (outcome.kind !== 'waiting') return replyToMany(leaseId, names, outcome);
    const { lock, ...waiting } = waitingBody(outcome.name, leaseId, outcome.waiting);
    const reply: ManyWaitingBody = { ...waiting, waitRemainingMs: outcome.waitRemainingMs, blockedBy: [lock] };
    return { status: 202, body: reply };
  },

  async renewLocks({ locks: context }, { parameters, body }) {
    const { leaseId, locks, leaseMs } = renewalWithin(context, body);
    return replyToMany(leaseId, locks, await renewAll(context, parameters.ns, { leaseId, names: locks, leaseMs }));
  },

  async releaseLocks({ locks: context }, { parameters, body: { leaseId, locks } }) {
    const answers = await releaseAll(context, parameters.ns, leaseId, locks);
    const isReleased = ({ answer }: (typeof answers)[number]) =>
      answer.kind === 'released' && answer.reason !== 'already_released';
    const expired = answers.filter(({ answer }) => answer.kind === 'released' && answer.isExpired === true);
    const body: ManyReleaseBody = {
      ...(expired.length === 0 ? {} : { expired: expired.map(({ name }) => name) }),
      released: answers.filter(isReleased).map(({ name }) => name),
      failed: answers
        .filter((each) => !isReleased(each))
        .map(({ name, answer }) => ({ lock: name, reason: 'reason' in answer ? answer.reason : answer.kind })),
    };
    return { status: 200, body };
  },
};

function replyToMany(
  leaseId: string,
  names: readonly string[],
  outcome: Exclude<MultiOutcome, { kind: 'waiting' }>,
): Reply {
  if (outcome.kind === 'session-lost') throw sessionLost();
  if (outcome.kind === 'refused') throw refusalOfMany(outcome);
  const { holders, facts, waitedMs } = outcome;
  // The locks were granted together, so one end counts for all. After a repeated request, the earliest end counts.
  const ends = holders.map((holder) => endsAt(holder, facts)).filter((end) => end !== null);
  const left = holders.map((holder) => remainingMs(holder, facts)).filter((remaining) => remaining !== null);
  const body: ManyGrantBody = {
    status: 'granted',
    leaseId,
    grants: holders.map(({ fence }, index) => ({ lock: names[index] as string, fence })),
    remainingMs: left.length === 0 ? null : Math.min(...left),
    expiresAt: ends.length === 0 ? null : toIso(ends.reduce((one, other) => (other < one ? other : one))),
    waitedMs,
  };
  return { status: 200, body };
}

/** Which refusal to report. A lost lease comes first, then a limit that does not fit, then a lock that is held. */
const weights: Partial<Record<Refusal['answer']['kind'], number>> = {
  lost: 3,
  deadlock: 3,
  'limit-mismatch': 2,
  'queue-full': 2,
  'too-many-waits': 2,
};

function refusalOfMany({ refusals, facts, waitedMs }: Extract<MultiOutcome, { kind: 'refused' }>): Problem {
  const blockedBy = refusals.map(({ name }) => name);
  const weightOf = ({ answer }: Refusal) => weights[answer.kind] ?? 1;
  const [worst] = refusals.toSorted((one, other) => weightOf(other) - weightOf(one));
  if (worst === undefined) throw new Error('A refusal names at least one lock.');
  const { name, answer, state } = worst;
  const { code, message, fields } = refusalOf(name, { answer, state, facts });
  if (answer.kind !== 'wait-timeout') return new Problem(code, message, { ...fields, blockedBy });
  // The wait for all locks counts, and not the wait for this one.
  const detail = `${name} was not granted within ${waitedMs} ms; nothing is held.`;
  return new Problem(code, detail, { ...fields, waitedMs, blockedBy });
}
