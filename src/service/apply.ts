import type { Acquire, Answer, Decision, Facts, LockCommand, WaiterCommand } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import { type Holder, hasMore, type LockKey, type LockState, lockIdOf } from '../lock/state.ts';
import { isPresent } from '../lock/validity.ts';
import { positionOf, wantsMore } from '../lock/view.ts';
import { again, type NotYet, readAndLearn, unlessThrottled } from '../queue/context.ts';
import { findPage } from '../queue/finding.ts';
import { applyInPage, type InPage, pageToAsk, readInPage } from '../queue/in-page.ts';
import { joinBehind } from '../queue/joining.ts';
import type { LockWrite } from '../queue/lock-store.ts';
import { closePages, moveClosed } from '../queue/moving.ts';
import { movedBetween } from '../queue/pages.ts';
import { Attempts } from './attempts.ts';
import { bareFacts, factsAbout, factsForLook, type LockContext } from './context.ts';
import { isAmongWaiters, predict } from './predict.ts';

/** Pages closed for one write to the lock. If hundreds of waiters died together, this many pages are dropped at once. */
const pagesPerWrite = 32;
/** Writes after a release that serve readers from pages. The notifier, or the next caller, serves the rest. */
const followUpsMax = 16;

/** An answer, and the state of the lock that goes with it. */
export interface Answered {
  readonly answer: Answer;
  readonly state: LockState;
  readonly facts: Facts;
}

export interface Applied extends Answered {
  /** The waiters to which this command granted the lock. The edge tells those on a WebSocket. */
  readonly grantedTo: readonly Holder[];
}

/**
 * Carries out a command. The common case is one write. If that is refused, `decide` makes the next state from the state
 * that refused it, and a compare-and-swap writes it. If others wrote in between, it is tried again after a random pause.
 * If the waiter's page is known, only that page is written.
 */
export async function apply(context: LockContext, key: LockKey, command: LockCommand): Promise<Applied> {
  if (isAboutWaiter(command)) {
    const page = pageToAsk(context, key, command);
    const inPage = page === undefined ? undefined : await applyInPage(context, key, command, page);
    if (inPage !== undefined) return withFacts(context, key, inPage);
  }
  const work = () => applyToLock(context, key, command);
  const known = context.cache.seen(key)?.state;
  const applied = await (isAmongWaiters(known, command) ? context.turns.run(`release ${lockIdOf(key)}`, work) : work());
  if (command.kind === 'renew') return applied;
  const { grantedTo } = await serveBehind(context, key, applied.state);
  return grantedTo.length === 0 ? applied : { ...applied, grantedTo: [...applied.grantedTo, ...grantedTo] };
}

/**
 * The answer to a parked waiter that asks again and changes nothing: it has its place, and waits in the same way. Only reads
 * are needed for that. Undefined in every other case. Then `apply` must carry out the command.
 */
export async function readWait(context: LockContext, key: LockKey, command: Acquire): Promise<Answered | undefined> {
  const page = pageToAsk(context, key, command);
  const inPage = page === undefined ? 'elsewhere' : await readInPage(context, key, command, page);
  if (inPage === 'needs-write') return undefined;
  if (inPage !== 'elsewhere') return withFacts(context, key, inPage);
  const state = await readAndLearn(context, key);
  const facts = await factsForLook(context, key, state);
  const { answer, change } = decide(state, command, facts);
  return answer.kind === 'waiting' && change.kind === 'none' ? { answer, state, facts } : undefined;
}

/** Moves a page up before the front is empty. `shown` comes from the stream, so the lock need not be read to know its first page. */
export async function refill(context: LockContext, key: LockKey, shown: LockState): Promise<Applied> {
  context.cache.learn(key, shown);
  return apply(context, key, { kind: 'refill' });
}

export type Swept = Pick<Applied, 'state' | 'grantedTo'>;

/** Sweeps a lock for its waiters in this process. */
export async function sweepForWaiters(context: LockContext, key: LockKey): Promise<Swept> {
  const swept = await sweepOnce(context, key);
  const served = await serveBehind(context, key, swept.state);
  return { state: served.state, grantedTo: [...swept.grantedTo, ...served.grantedTo] };
}

/** While permits are left for waiters behind the front, they are served. Many readers are served step by step. */
async function serveBehind(context: LockContext, key: LockKey, applied: LockState): Promise<Swept> {
  let state = applied;
  const grantedTo: Holder[] = [];
  for (let step = 0; step < followUpsMax; step++) {
    // If nobody is behind the front, no session is read: an acquire under a session reads its own session once.
    if (!hasMore(state) || !wantsMore(state, await factsForLook(context, key, state))) break;
    const swept = await sweepOnce(context, key);
    state = swept.state;
    grantedTo.push(...swept.grantedTo);
  }
  return { state, grantedTo };
}

/** If many readers release at once, each of them finds that waiters should move up. One sweep at a time serves for all of them. */
async function sweepOnce(context: LockContext, key: LockKey): Promise<Swept> {
  const id = lockIdOf(key);
  const underWay = context.sweeps.joined(id);
  if (underWay === undefined) return context.sweeps.run(id, () => applyToLock(context, key, { kind: 'sweep' }));
  const { state } = await underWay;
  // The caller may have written after that sweep had read the lock. Then it decides on its own state again.
  return { state: context.cache.seen(key)?.state ?? state, grantedTo: [] };
}

const isAboutWaiter = (command: LockCommand): command is WaiterCommand =>
  'leaseId' in command && command.kind !== 'renew' && command.kind !== 'undelivered';

async function withFacts(context: LockContext, key: LockKey, { answer, state }: InPage): Promise<Applied> {
  return { answer, state, facts: await factsAbout(context, key, state), grantedTo: [] };
}

type Step = { readonly kind: 'done'; readonly applied: Applied } | NotYet;

/** What is known of a command on its way. */
interface Course {
  readonly key: LockKey;
  readonly command: LockCommand;
  readonly attempts: Attempts;
  /** Waiters that were granted on the way. */
  readonly grantedTo: Holder[];
  /** The next decision is on a state that was only seen a while ago. */
  isGuess: boolean;
  /** A write was sent more than once, so its first try may have been carried out. */
  perhapsMine: boolean;
  /** The answer of the latest write if its response was lost. */
  meant: Answer | undefined;
  /** The pages were searched for the lease, and it was not there. */
  isSearched: boolean;
}

/** The one loop: a step ends the command, or it is decided again, at once or after a pause. */
async function applyToLock(context: LockContext, key: LockKey, command: LockCommand): Promise<Applied> {
  const course: Course = {
    key,
    command,
    attempts: new Attempts(context),
    grantedTo: [],
    isGuess: false,
    perhapsMine: false,
    meant: undefined,
    isSearched: false,
  };
  try {
    let step = await begin(context, course);
    while (step.kind !== 'done') step = await goOn(context, course, step);
    return step.applied;
  } finally {
    // Also if the command fails in the end: those whom it granted on its way hold the lock.
    context.grants.tell(key, course.grantedTo);
  }
}

async function goOn(context: LockContext, course: Course, step: NotYet): Promise<Step> {
  const { attempts } = course;
  if (step.kind === 'pause') {
    await attempts.pause(step.ms);
    return again(await readAndLearn(context, course.key));
  }
  course.perhapsMine ||= step.perhapsMine ?? false;
  const next = await decideAndWrite(context, course, step.state);
  if (next.kind !== 'again') return next;
  course.perhapsMine ||= next.perhapsMine ?? false;
  if (next.isProgress) await attempts.progress();
  else if (await attempts.lost()) return sendCommonCase(context, course);
  return next;
}

async function begin(context: LockContext, course: Course): Promise<Step> {
  const { key, command } = course;
  const seen = context.cache.seen(key);
  const isRecent = seen !== undefined && context.clock.now() - seen.at <= context.rememberedMs;
  switch (predict(seen, command, bareFacts(context), isRecent)) {
    case 'refused':
      course.isGuess = true;
      return { kind: 'again', state: (seen as { state: LockState }).state, isProgress: true };
    case 'read':
      return { kind: 'again', state: await readAndLearn(context, key), isProgress: true };
    case 'send':
      return sendCommonCase(context, course);
  }
}

/** Tries the common case of the command in one write. */
async function sendCommonCase(context: LockContext, course: Course): Promise<Step> {
  const { key, command } = course;
  const facts = bareFacts(context);
  const attempt = context.store.attempt(key, command, facts, context.cache.seen(key)?.state);
  // A key takes three times as many reads as writes. A refusal needs no write, and a waiter that joins a long queue writes
  // only to its last page.
  const written = await (command.kind === 'acquire' ? unlessThrottled(attempt) : attempt);
  if (written === undefined) return { kind: 'again', state: await readAndLearn(context, key), isProgress: true };
  context.cache.learn(key, written.state);
  if (!written.applied)
    return { kind: 'again', state: written.state, perhapsMine: written.perhapsMine, isProgress: true };
  if (command.kind === 'release') course.grantedTo.push(...handedOverWhole(written.state));
  return done(course, answerAfter(command, written.state, facts), written.state, facts);
}

const done = ({ grantedTo }: Course, answer: Answer, state: LockState, facts: Facts): Step => ({
  kind: 'done',
  applied: { answer, state, facts, grantedTo },
});

/** Of the writes without a read, only the release of a whole lock hands over. Then its next holder comes from the queue. */
const handedOverWhole = ({ holders, limit }: LockState): Holder[] =>
  holders.filter(({ queuedAt, permits }) => queuedAt !== undefined && permits === limit);

/** The holders to which this write granted from the queue. Then the write and the grant have the same time. */
export const handedOverIn = (after: LockState, before: LockState): Holder[] =>
  after.holders.filter(
    ({ queuedAt, acquiredAt, fence }) =>
      queuedAt !== undefined && acquiredAt === after.changedAt && fence > before.fence,
  );

/** Decides on a state and writes the result. */
async function decideAndWrite(context: LockContext, course: Course, before: LockState): Promise<Step> {
  const { key, command } = course;
  const { state, decision, facts } = await decideWithPages(context, course, before);
  const { change } = decision;
  const moved = movedBetween(before, state);
  if (moved !== undefined) {
    // Pages move up in a write of their own. It conflicts with no other write, so a busy lock does not delay it. The command is
    // decided again on its result. Whether that write was lost says nothing about the command.
    const after = await moveClosed(context, key, moved);
    if (mayHandOver(context, command, after)) return sendCommonCase(context, course);
    return { kind: 'again', state: after, isProgress: true };
  }
  const answer = course.perhapsMine ? asFirstAnswer(decision.answer, course.meant) : decision.answer;
  const wasGuess = course.isGuess;
  course.isGuess = false;
  // If the front was seen full, and nobody behind it, somebody may have been served since. So a place in the front is tried first.
  const mayBeInFront = wasGuess && change.kind === 'join-behind' && !hasMore(before);
  if (change.kind === 'join-behind' && command.kind === 'acquire' && !mayBeInFront) {
    const joined = await joinBehind(context, key, { command, waiter: change.waiter, before }, course.isSearched);
    course.isSearched = true;
    return 'kind' in joined ? joined : done(course, joined.answer, joined.state, facts);
  }
  if (change.kind === 'none') {
    if (!isMissing(command, decision.answer)) return done(course, answer, before, facts);
    return answerFromPages(context, course, command, before, () => done(course, answer, before, facts));
  }
  const written = await context.store.write(key, writeOf(context, course, decision));
  context.cache.learn(key, written.state);
  if (!written.applied) {
    course.meant = answer;
    return again(written.state, written.perhapsMine);
  }
  course.grantedTo.push(...handedOverIn(written.state, before).filter(({ leaseId }) => !isOwn(command, leaseId)));
  // A decision to settle was for other waiters. The command itself is decided next.
  if (change.kind === 'settle') return { kind: 'again', state: written.state, isProgress: true };
  // Others may have joined after the state that was decided on. The written state shows the right position.
  const shown = answer.kind === 'waiting' ? answerAfter(command, written.state, facts) : answer;
  return done(course, shown, written.state, facts);
}

const isOwn = (command: LockCommand, leaseId: string): boolean => 'leaseId' in command && command.leaseId === leaseId;

/** If a present waiter is the first now, a release hands over in its one usual write. */
function mayHandOver(context: LockContext, command: LockCommand, state: LockState): boolean {
  const [head] = state.queue;
  if (command.kind !== 'release' || head === undefined || isAmongWaiters(state, command)) return false;
  return isPresent(head, bareFacts(context));
}

/** The lock does not know the lease of the command. It may wait in a page. */
async function answerFromPages(
  context: LockContext,
  course: Course,
  command: WaiterCommand,
  state: LockState,
  otherwise: () => Step,
): Promise<Step> {
  const page = await findPage(context, course.key, command.leaseId, state);
  if (page === undefined) return otherwise();
  const found = await applyInPage(context, course.key, command, page);
  // If its page moved up in the meantime, the lock knows the waiter now.
  if (found === undefined) return again(await context.store.read(course.key));
  return { kind: 'done', applied: await withFacts(context, course.key, found) };
}

/**
 * Decides, and closes as many pages as must move up. `state` is the lock as it will be when they have moved up.
 */
async function decideWithPages(context: LockContext, { key, command }: Course, before: LockState) {
  // One page at a time is enough to keep the front filled.
  const closedMax = command.kind === 'refill' ? 1 : pagesPerWrite;
  let state = before;
  for (let closed = 0; ; ) {
    const facts = await factsAbout(context, key, state);
    const decision = decide(state, command, facts);
    if (decision.change.kind !== 'move-up' || closed >= closedMax) return { state, decision, facts };
    const more = await closePages(context, key, state, closed === 0 ? 1 : closedMax - closed);
    closed += more.count;
    state = more.state;
  }
}

/**
 * The write for a decision. If its change commutes with those of others, it does not depend on the revision. Such a write is tried
 * twice, because the first refusal may only show where the queue ends. Then a swap is tried.
 */
function writeOf(context: LockContext, { command, attempts }: Course, { change, next }: Decision): LockWrite {
  const now = next.changedAt;
  if (!attempts.isLastOfRound) {
    if ((change.kind === 'arrive' || change.kind === 'join-behind') && command.kind === 'acquire')
      return { kind: 'arrive', waiter: change.waiter, limit: command.limit, frontLengthMax: context.sizes.front };
    if (change.kind === 'attend' || change.kind === 'leave') return { ...change, now };
  }
  return { kind: 'replace', next };
}

/** Whether the lock does not know the command's lease. It may wait in a page. */
function isMissing(command: LockCommand, answer: Answer): command is WaiterCommand {
  if (command.kind === 'release') return answer.kind === 'lost' && answer.reason === 'not_owner';
  if (command.kind === 'give-up') return answer.kind === 'wait-timeout';
  return command.kind === 'step-away';
}

/** The answer of a command after it was written: success, or a place in the queue. */
function answerAfter(command: LockCommand, state: LockState, facts: Facts): Answer {
  switch (command.kind) {
    case 'acquire': {
      const waiter = state.queue.find(({ leaseId }) => leaseId === command.leaseId);
      const position = positionOf(state, command.leaseId, facts);
      return waiter === undefined || position === undefined
        ? { kind: 'granted', holder: holderOf(command, state) }
        : { kind: 'waiting', waiter, position };
    }
    case 'renew':
      return { kind: 'granted', holder: holderOf(command, state) };
    case 'release':
      return { kind: 'released', reason: 'ok' };
    default:
      return { kind: 'done' };
  }
}

const holderOf = (command: { readonly leaseId: string }, { holders }: LockState): Holder =>
  holders.find(({ leaseId }) => leaseId === command.leaseId) as Holder;

/**
 * The request was sent more than once, and the state already shows its effect. Only the owner knows the lease, so that
 * was its own first try, whose response was lost. It gets the answer of the first try.
 */
function asFirstAnswer(answer: Answer, meant: Answer = { kind: 'released', reason: 'ok' }): Answer {
  const isRepeat = answer.kind === 'released' && answer.reason === 'already_released';
  return isRepeat && meant.kind === 'released' ? meant : answer;
}
