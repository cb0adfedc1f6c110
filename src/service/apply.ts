import type { Acquire, Answer, Decision, Facts, LockCommand, Release, WaiterCommand } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import { type Holder, hasPages, type LockKey, type LockState } from '../lock/state.ts';
import { isPresent } from '../lock/validity.ts';
import { positionOf, wantsPage } from '../lock/view.ts';
import type { Refused, Written } from '../queue/lock-store.ts';
import { movedBetween, moveUp, pageNumbers, sizesOf } from '../queue/pages.ts';
import { StoreError } from '../table/store-error.ts';
import { after } from '../time/clock.ts';
import { pauseFor } from '../time/timers.ts';
import { backoffMs } from '../tools/backoff.ts';
import { bareFacts, factsAbout, factsForLook, type LockContext, readAndLearn, unlessThrottled } from './context.ts';
import { applyInPage, findPlace, joinPage, readInPage } from './pages.ts';

/** On a lock with 500 writes a second, ten rounds in a row lose to others far less often than once in a thousand. */
const roundsMax = 10;
/**
 * A refusal has the current state, so a second and a third decision need no read. After that, a pause lets others
 * finish.
 */
const writesPerRound = 3;
/** Pages closed for one write to the lock. If hundreds of waiters died together, this many pages are dropped at once. */
const pagesPerWrite = 32;
/** Writes of one command that only move pages up: more than the longest queue needs if all its waiters died. */
const movesMax = 100;
/**
 * How long a command waits to join a page, if so many join at once that its turn does not come. API Gateway ends a request
 * after 30 s, and a caller that is told to repeat its request in time loses nothing.
 */
const joiningMsMax = 15_000;
/** Writes after a release that serve readers from pages. The notifier, or the next caller, serves the rest. */
const followUpsMax = 16;

export interface Applied {
  readonly answer: Answer;
  readonly state: LockState;
  readonly facts: Facts;
}

/**
 * Carries out a command. The common case is one write. If that is refused, `decide` makes the next state from the state
 * that refused it, and a compare-and-swap writes it. If others wrote in between, it is tried again after a random pause.
 * If the waiter's page is known, only that page is written.
 */
export async function apply(context: LockContext, key: LockKey, command: LockCommand): Promise<Applied> {
  if (isAboutWaiter(command)) {
    const page = pageOf(context, key, command);
    const inPage = page === undefined ? undefined : await applyInPage(context, key, command, page);
    if (inPage !== undefined) return inPage;
  }
  const work = () => applyToLock(context, key, command);
  const applied = await (isAmongWaiters(context, key, command)
    ? context.memory.inTurn(key, 'release', context.timers, work)
    : work());
  if (command.kind !== 'renew') await serveFromPages(context, key, applied.state);
  return applied;
}

/**
 * The answer to a parked waiter that asks again and changes nothing: it has its place, and waits in the same way. Only reads
 * are needed for that. Undefined in every other case. Then `apply` must carry out the command.
 */
export async function readWait(context: LockContext, key: LockKey, command: Acquire): Promise<Applied | undefined> {
  const page = pageOf(context, key, command);
  const inPage = page === undefined ? 'elsewhere' : await readInPage(context, key, command, page);
  if (inPage !== 'elsewhere') return inPage === 'needs-write' ? undefined : inPage;
  const state = await readAndLearn(context, key);
  const facts = await factsForLook(context, key, state);
  const { answer, change } = decide(state, command, facts);
  return answer.kind === 'waiting' && change.kind === 'none' ? { answer, state, facts } : undefined;
}

/** Moves a page up before the front is empty. `shown` comes from the stream, so the lock need not be read to know its first page. */
export async function refill(context: LockContext, key: LockKey, shown: LockState): Promise<void> {
  context.memory.learn(key, shown);
  await apply(context, key, { kind: 'refill' });
}

/** Sweeps a lock for its waiters in this process. */
export async function sweepForWaiters(context: LockContext, key: LockKey): Promise<LockState> {
  return serveFromPages(context, key, await sweepOnce(context, key));
}

/** While permits are left for waiters in pages, the next page is served. Many readers are served page by page. */
async function serveFromPages(context: LockContext, key: LockKey, state: LockState): Promise<LockState> {
  let served = state;
  for (let step = 0; step < followUpsMax; step++) {
    // Without pages no session is read: an acquire under a session reads its own session once.
    if (!hasPages(served) || !wantsPage(served, await factsForLook(context, key, served))) break;
    served = await sweepOnce(context, key);
  }
  return served;
}

/** If many readers release at once, each of them finds that a page should move up. One sweep at a time serves for all of them. */
const sweepOnce = (context: LockContext, key: LockKey): Promise<LockState> =>
  context.memory.sweepOnce(key, async () => (await applyToLock(context, key, { kind: 'sweep' })).state);

const isAboutWaiter = (command: LockCommand): command is WaiterCommand =>
  'leaseId' in command && command.kind !== 'renew' && command.kind !== 'undelivered';

/**
 * The page to ask: the one that the command names, or the one that this process saw the lease join. Undefined: ask the
 * lock.
 */
function pageOf({ memory }: LockContext, key: LockKey, { leaseId, place }: WaiterCommand): number | undefined {
  if (place === undefined) return memory.placeOf(key, leaseId);
  return place === 'new' ? undefined : place;
}

async function applyToLock(context: LockContext, key: LockKey, command: LockCommand): Promise<Applied> {
  let perhapsMine = false;
  let meant: Answer | undefined;
  let moves = 0;
  const joinsUntil = after(context.clock.now(), joiningMsMax);
  for (let round = 0; round < roundsMax; round++) {
    const facts = bareFacts(context);
    const known = context.memory.seen(key)?.state;
    const first =
      (round === 0 ? await tryByMemory(context, key, command) : undefined) ??
      (await tryDirectly(context, key, command, facts, known));
    if (first.applied) return { answer: directAnswer(command, first.state, facts), state: first.state, facts };
    let written: Refused = first;
    for (let tries = 1; tries <= writesPerRound; ) {
      perhapsMine ||= written.perhapsMine;
      const step = await takeStep(context, key, { command, before: written.state, perhapsMine, meant, tries });
      if ('answer' in step) return step;
      // A page that moved up is progress, and no failed try.
      if (step.isMoved === true && moves < movesMax) moves += 1;
      // Nobody refused the command, so a write to the lock would not help it. It only waits for its turn again.
      else if (step.isLate !== true) tries += 1;
      else if (context.clock.now() >= joinsUntil)
        throw new StoreError('throttled', 'Too many callers join the queue of this lock at once.');
      written = step.written;
      meant = step.meant ?? meant;
      context.memory.learn(key, written.state);
      // If a present waiter is the first now, a release hands over in its one usual write.
      const later = bareFacts(context);
      const head = step.isMoved === true ? written.state.queue[0] : undefined;
      const isNext = head !== undefined && isPresent(head, later);
      if (isNext && command.kind === 'release' && !isAmongWaiters(context, key, command)) {
        const direct = await tryDirectly(context, key, command, later, written.state);
        if (direct.applied) return { answer: { kind: 'released', reason: 'ok' }, state: direct.state, facts: later };
        written = direct;
      }
    }
    perhapsMine ||= written.perhapsMine;
    await pauseFor(context.timers, backoffMs(round, 4, 250, context.random));
  }
  throw new StoreError('conflict', `Others kept writing to this lock for ${roundsMax * writesPerRound} tries.`);
}

interface Step {
  readonly command: LockCommand;
  readonly before: LockState;
  readonly perhapsMine: boolean;
  /** The answer of the latest write if its response was lost. */
  readonly meant: Answer | undefined;
  readonly tries: number;
}

/** The state to decide on next. */
interface Again {
  readonly written: Refused;
  readonly meant?: Answer | undefined;
  /** Pages moved up. */
  readonly isMoved?: boolean;
  /** The decision is seconds old, because others join the same queue. */
  readonly isLate?: boolean;
}

/** Decides on a state and writes the result. Returns the answer, or the state to decide on next. */
async function takeStep(
  context: LockContext,
  key: LockKey,
  { command, before, perhapsMine, meant, tries }: Step,
): Promise<Applied | Again> {
  const { state, decision, facts } = await decideWithPages(context, key, command, before);
  const answer = perhapsMine ? asFirstAnswer(decision.answer, meant) : decision.answer;
  const { change } = decision;
  const moved = movedBetween(before, state);
  if (moved !== undefined) {
    // Pages move up in a write of their own. It conflicts with no other write, so a busy lock does not delay it. The command is
    // decided again on its result. Whether that write was lost says nothing about the command.
    const { applied: isMoved, state: after } = await context.store.moveUp(key, moved, facts.now);
    return { written: { applied: false, state: after, perhapsMine: false }, isMoved };
  }
  if ((change.kind === 'join-page' || change.kind === 'open-page') && command.kind === 'acquire') {
    return joinPage(context, key, { command, waiter: change.waiter, before, facts });
  }
  if (change.kind === 'none' && state === before) {
    if (!isMissing(command, decision.answer)) return { answer, state: before, facts };
    const page = await findPlace(context, key, command.leaseId, before);
    if (page === undefined) return { answer, state: before, facts };
    const found = await applyInPage(context, key, command, page);
    // Its page moved up in the meantime, so the lock knows the waiter now.
    return found ?? { written: { applied: false, state: await context.store.read(key), perhapsMine: false } };
  }
  // An update that commutes is tried twice, because the first refusal may only show where the queue ends. Then a swap is tried.
  const written = await (tries < writesPerRound
    ? write(context, key, command, decision)
    : context.store.swap(key, decision.next));
  context.memory.learn(key, written.state, written.applied && written.state.fence > before.fence);
  // A decision to settle was for other waiters. The command itself is decided next.
  if (!written.applied || change.kind === 'settle') return again(written, answer);
  // Others may have joined after the state that was decided on. The written state shows the right position.
  const shown = answer.kind === 'waiting' ? directAnswer(command, written.state, facts) : answer;
  return { answer: shown, state: written.state, facts };
}

const again = (written: Written, meant?: Answer): Again => ({
  written: { applied: false as const, state: written.state, perhapsMine: !written.applied && written.perhapsMine },
  meant,
});

/**
 * Decides, and moves up as many pages as needed. Each page is closed first. Then one write moves its waiters into the
 * front. If the process dies in between, closed pages are left, and the next caller moves them up in the same way.
 */
async function decideWithPages(context: LockContext, key: LockKey, command: LockCommand, before: LockState) {
  let state = before;
  for (let closed = 0; ; ) {
    const facts = await factsAbout(context, key, state);
    const decision = decide(state, command, facts);
    // One page at a time is enough to keep the front filled.
    const closedMax = command.kind === 'refill' ? 1 : pagesPerWrite;
    if (decision.change.kind !== 'move-up' || closed >= closedMax) return { state, decision, facts };
    const { page: first } = decision.change;
    const numbers = closed === 0 ? [first] : await absentPages(context, key, state, pagesPerWrite - closed);
    const pages = await Promise.all(numbers.map((number) => context.store.closePage({ lock: key, number }, facts.now)));
    closed += pages.length;
    state = pages.reduce(moveUp, state);
  }
}

/** The first pages without a present waiter, and one more. If many died together, one request finds their pages. */
async function absentPages(context: LockContext, lock: LockKey, state: LockState, max: number): Promise<number[]> {
  const numbers = pageNumbers(state).slice(0, max);
  const pages = await context.store.readPages(numbers.map((number) => ({ lock, number })));
  const now = context.clock.now();
  const present = pages.findIndex(({ waiters }) => waiters.some(({ presentUntil }) => now < presentUntil));
  return present < 0 ? numbers : numbers.slice(0, present + 1);
}

async function tryDirectly(
  context: LockContext,
  key: LockKey,
  command: LockCommand,
  facts: Facts,
  known: LockState | undefined,
): Promise<Written> {
  const attempt = context.store.attempt(key, command, facts, known);
  // A key takes three times as many reads as writes. A refusal needs no write, and a waiter that joins a long queue writes
  // only to its last page.
  const written = await (command.kind === 'acquire' ? unlessThrottled(attempt) : attempt);
  if (written === undefined) return { applied: false, state: await readAndLearn(context, key), perhapsMine: false };
  // Of the writes without a read, only a release hands over.
  context.memory.learn(key, written.state, written.applied && command.kind === 'release');
  return written;
}

/**
 * Whether a command releases a part of a lock that others wait for. Then `decide` must say who is served, so releases at
 * the same time would refuse each other.
 */
function isAmongWaiters({ memory }: LockContext, key: LockKey, command: LockCommand): command is Release {
  if (command.kind !== 'release') return false;
  const known = memory.seen(key)?.state;
  if (known === undefined || !(known.queue.length > 0 || hasPages(known))) return false;
  return known.holders.some(({ leaseId, permits }) => leaseId === command.leaseId && permits < known.limit);
}

/**
 * Predicts that the first write would be refused, so that it need not be sent: a refused write is billed like any other.
 * Either others are known to hold the lock or to wait for it, so a waiter joins the queue or keeps its place, or the front
 * is known to be empty, so a release must move a page up, or a part of an awaited lock is released. If this knowledge is
 * out of date, the next writes are refused, and `decide` is asked. Undefined if nothing can be predicted.
 */
async function tryByMemory(context: LockContext, key: LockKey, command: LockCommand): Promise<Written | undefined> {
  const seen = context.memory.seen(key);
  if (seen === undefined) return undefined;
  const { state: known } = seen;
  const isRecent = context.clock.now() - seen.at <= context.rememberedMs;
  const refusal: Refused = { applied: false, state: known, perhapsMine: false };
  if (command.kind === 'refill') return isRecent ? refusal : undefined;
  if (command.kind === 'release') {
    const holder = known.holders.find(({ leaseId }) => leaseId === command.leaseId);
    const movesPageUp = hasPages(known) && known.queue.length === 0;
    const isRefused = movesPageUp || isAmongWaiters(context, key, command);
    return isRecent && isRefused && holder !== undefined && holder.leaseMs !== null ? refusal : undefined;
  }
  if (command.kind !== 'acquire' || command.waitMs === 0 || command.sessionId !== undefined) return undefined;
  // To find out whether a session is alive costs a read, as much as a refusal.
  if ([...known.holders, ...known.queue].some(({ sessionId }) => sessionId !== undefined)) return undefined;
  const { change, answer } = decide(known, command, bareFacts(context));
  // The conditions of these writes check all that they assume.
  if (change.kind === 'attend') return refusal;
  if (change.kind === 'replace' && answer.kind === 'waiting' && isRecent) return refusal;
  if (change.kind === 'arrive' && (isRecent || known.queue.length > 0)) return refusal;
  // A read of the lock costs a fraction of a refused write.
  const read = async () => ({ applied: false, state: await readAndLearn(context, key), perhapsMine: false }) as const;
  if (change.kind === 'none' && answer.kind === 'waiting') return read();
  if (change.kind !== 'arrive' && change.kind !== 'join-page' && change.kind !== 'open-page') return undefined;
  if (change.kind === 'open-page' && !hasPages(known)) {
    // The front was full, and nobody had opened a page. Somebody may have been served since, so a place in the front is tried
    // first. If many arrive, that costs one refused write, and then there are pages.
    const arrival = { waiter: change.waiter, limit: command.limit, sizes: sizesOf(bareFacts(context)) };
    const written = await context.store.enqueue(key, arrival);
    context.memory.learn(key, written.state);
    return written;
  }
  // A page does not know whether the lease holds the lock or has ended. So only a new lease joins by a remembered state.
  if (isRecent && command.place === 'new') return refusal;
  // A long queue was seen a while ago, or a holder without a queue.
  return read();
}

/** Writes the change of a decision. If the change commutes with those of others, it does not depend on the revision. */
function write(context: LockContext, key: LockKey, command: LockCommand, { change, next }: Decision): Promise<Written> {
  const { store } = context;
  switch (change.kind) {
    case 'arrive':
      return command.kind === 'acquire'
        ? store.enqueue(key, { waiter: change.waiter, limit: command.limit, sizes: sizesOf(bareFacts(context)) })
        : store.swap(key, next);
    case 'attend':
      return store.attend(key, change.index, change.waiter, next.changedAt);
    case 'leave':
      return store.leave(key, change.index, change.waiter, change.isRemembered, next.changedAt);
    default:
      return store.swap(key, next);
  }
}

/** Whether the lock does not know the command's lease. It may wait in a page. */
function isMissing(command: LockCommand, answer: Answer): command is WaiterCommand {
  if (command.kind === 'release') return answer.kind === 'lost' && answer.reason === 'not_owner';
  if (command.kind === 'give-up') return answer.kind === 'wait-timeout';
  return command.kind === 'step-away';
}

/** The answer of a command after its common case was written: success, or a place in the queue. */
function directAnswer(command: LockCommand, state: LockState, facts: Facts): Answer {
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
