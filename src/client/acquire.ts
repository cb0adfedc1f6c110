import { requestLimits } from '../contract/limits.ts';
import type { Waiting, WaitingBody } from '../contract/views.ts';
import { joinSignals, unlessAborted } from './abort.ts';
import { isWorthRepeating, type Success } from './caller.ts';
import { type Core, inBackground, releasePolicyOf } from './core.ts';
import { HoldfastError, LeaseLostError, UnavailableError, WaitTimeoutError } from './errors.ts';
import { elapsedMs, type Mark, markNow, pause, type Runtime } from './runtime.ts';
import type { ParkingSocket } from './sockets.ts';
import type { Call } from './transport.ts';

/** The requests of one lease. One lock and several locks have the same ones. */
export interface LeaseCalls {
  /** Its name in errors and events. */
  readonly label: string;
  readonly leaseId: string;
  /** True if the lease ends with a session and has no end of its own. */
  readonly sessionBound: boolean;
  /**
   * Which `waitMs` a repeated request sends. For one lock, the rest of the wait: the deadline is stored with the place in
   * the queue. For several locks, the same as at first: the service counts from the first request while it holds some of
   * them.
   */
  readonly repeats: 'what is left' | 'the whole wait';
  /** `place` comes from the last answer. It is `new` if this lease was never sent before. */
  acquire(
    waitMs: number,
    how?: { readonly pollMs?: number | undefined; readonly place?: number | 'new' | undefined },
  ): Call;
  /** The same wait, parked on a WebSocket connection. Missing if that is not possible. */
  park?(waitMs: number, connectionId: string, place?: number): Call;
  renew(leaseMs?: number): Call;
  release(): Call;
}

export interface TakeOptions {
  /** With 0, it tries once. */
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly onWaiting?: ((place: Waiting) => void) | undefined;
  /** The wait, the retries and the answer together end within this time. */
  readonly deadlineMs?: number | undefined;
  /** How long an unavailable service is retried. If missing, for the whole wait. A caller that fails open gives less. */
  readonly unavailableBudgetMs?: number | undefined;
}

/** When a wait, its retries and its answer end, counted from the beginning of the wait. */
interface Bounds {
  readonly waitMs: number;
  /** No retry begins later. */
  readonly retryMs: number;
  readonly deadlineMs: number;
}

/** The wait ends this long before the deadline, so that the answer still arrives: one round trip. At most a quarter of a short deadline. */
const answerMs = 500;

function boundsOf({ patience }: Core, { waitMs, deadlineMs, unavailableBudgetMs }: TakeOptions): Bounds {
  if (deadlineMs !== undefined) {
    const roomMs = Math.max(0, deadlineMs - Math.min(answerMs, deadlineMs / 4));
    return {
      waitMs: Math.min(waitMs, roomMs),
      retryMs: Math.min(deadlineMs, unavailableBudgetMs ?? deadlineMs),
      deadlineMs,
    };
  }
  const retryMs = unavailableBudgetMs ?? waitMs + patience.tryMs;
  return { waitMs, retryMs, deadlineMs: waitMs + 2 * patience.tryMs };
}

/** A grant that is surely still valid. */
export interface Taken<Body> {
  readonly calls: LeaseCalls;
  readonly body: Body;
  /** A time before the request that granted or confirmed it was sent. */
  readonly from: Mark;
  readonly remainingMs: number;
}

/** How long a grant is valid. A grant under a session has no times of its own. */
export interface Leased {
  readonly leaseMs?: number;
  readonly remainingMs?: number | null;
}

/** If a lease ended before its grant arrived, the client asks for the lock again. If that happens more often than this, something else is wrong. */
const leasesMax = 3;
/** If the service answers "waiting" at once and does not keep the request open, this pause prevents a busy loop. */
const pollMsMin = 100;
/** From about this time on, a parked wait costs less than an open request. docs/cost.md has the numbers. */
const parkAfterMs = 2_000;
/**
 * A wait that could not be parked polls for this long, and then tries again. If it were as short as the first poll, a
 * thousand waits would keep a slow service so busy with polls that it could park none of them.
 */
const unparkedPollMs = 10_000;
/** How long a wait neither polls nor is parked, until there is a socket and its turn has come. It may be absent for 5 s, and its next request takes time too. */
const silentMsMax = 2_000;
/**
 * A parked wait also asks after this time, because a message may be lost. It is less than the usual lease of 30 s, so a lost
 * grant is found in time.
 */
const lookMsMax = 25_000;
/** Each time is random between the two. Otherwise, waits that were parked in the same moment would all ask in the same moment. */
const lookMsMin = 20_000;

const nextLookMs = ({ random }: Runtime): number => lookMsMin + random() * (lookMsMax - lookMsMin);

/**
 * Takes a lock, and waits as long as asked. All repeats of a request have the same leaseId, so a grant whose answer was
 * lost is found again. A new leaseId is made only if the service says that the old lease is over.
 */
export const take = <Body extends Leased>(
  core: Core,
  newCalls: (leaseId: string) => LeaseCalls,
  options: TakeOptions,
): Promise<Taken<Body>> => endedByClose(core, takeUnder<Body>(core, newCalls, options));

async function takeUnder<Body extends Leased>(
  core: Core,
  newCalls: (leaseId: string) => LeaseCalls,
  options: TakeOptions,
): Promise<Taken<Body>> {
  const began = markNow(core.runtime);
  const bounds = boundsOf(core, options);
  for (let leases = 1; ; leases++) {
    const calls = newCalls(core.runtime.newId());
    try {
      const answer = await wait(core, calls, began, bounds, options);
      return await confirm<Body>(core, calls, answer, bounds.deadlineMs - elapsedMs(core.runtime, began));
    } catch (error) {
      if (!isRefusal(error) && !(error instanceof UnavailableError && error.unsent)) void abandon(core, calls);
      const gone = error instanceof LeaseLostError && (error.reason === 'expired' || error.reason === 'not_owner');
      const timeLeft = elapsedMs(core.runtime, began) < bounds.retryMs;
      if (!gone || leases >= leasesMax || !timeLeft) throw error;
    }
  }
}

/**
 * Waits until a lease is granted, and releases it at once. It does not matter if the lease has already ended: the grant
 * shows that all earlier holders are done.
 */
export const awaitTurn = (core: Core, calls: LeaseCalls, options: TakeOptions): Promise<Turned> =>
  endedByClose(core, turnOf(core, calls, options));

interface Turned {
  readonly givenBack: Promise<unknown>;
}

async function turnOf(core: Core, calls: LeaseCalls, options: TakeOptions): Promise<Turned> {
  try {
    await wait(core, calls, markNow(core.runtime), boundsOf(core, options), options);
  } catch (error) {
    if (error instanceof LeaseLostError && error.reason === 'expired') return { givenBack: Promise.resolve() };
    if (!isRefusal(error)) void abandon(core, calls);
    throw error;
  }
  return { givenBack: abandon(core, calls) };
}

/** Asks until the lock is granted or refused. After a 202, the caller is still in the queue: it asks again or waits parked. */
async function wait(
  core: Core,
  calls: LeaseCalls,
  began: Mark,
  bounds: Bounds,
  { signal, onWaiting }: TakeOptions,
): Promise<Success> {
  const { waitMs, retryMs, deadlineMs } = bounds;
  const { caller, runtime, patience, closing, sockets } = core;
  const joined = joinSignals(signal, closing);
  const millisecondsOf = (ms: number) => (waitMs === 0 ? 0 : Math.max(1, Math.round(ms)));
  const wholeMs = millisecondsOf(waitMs - elapsedMs(runtime, began));
  const remaining: Remaining = () => {
    const leftMs = waitMs - elapsedMs(runtime, began);
    return { leftMs, askedMs: calls.repeats === 'the whole wait' ? wholeMs : millisecondsOf(leftMs) };
  };
  let place: number | 'new' | undefined = 'new';
  const knownPlace = () => (place === 'new' ? undefined : place);
  let leaveSocket: (() => void) | undefined;
  let isQueued = false;
  const noteWaiting = (waiting: Waiting) => {
    place = waiting.place;
    isQueued = true;
    onWaiting?.(waiting);
  };
  try {
    for (;;) {
      const passedMs = elapsedMs(runtime, began);
      const { leftMs, askedMs } = remaining();
      const mayPark = calls.park !== undefined && sockets.isPossible && leftMs > parkAfterMs;
      // Only the first poll is short. Without it, a lock that is soon free would cost a socket.
      const shortMs = isQueued ? unparkedPollMs : parkAfterMs;
      const pollMs = mayPark ? shortMs : undefined;
      const answer = await caller.call(calls.acquire(askedMs, { pollMs, place }), {
        // After the first request the service may know the lease, even if no answer came.
        again: calls.acquire(askedMs, { pollMs, place: knownPlace() }),
        deadlineMs: Math.max(1, deadlineMs - passedMs),
        retryMs: retryMs - passedMs,
        // A lost request must not cost more time than a poll takes. In that time, the lease of a grant may end unseen.
        attemptMs: patience.requestMs + Math.min(askedMs, pollMs ?? requestLimits.pollMsMax),
        signal: joined.signal,
        // If the wait ended here, its place would stay in the queue, and a grant could go to a waiter that is gone.
        goesOn: isQueued,
      });
      if (answer.status !== 202) return answer;
      const waiting = answer.body as WaitingBody;
      noteWaiting(waiting);
      // The service ends the wait by its own clock. This check is for the case that it does not.
      if (elapsedMs(runtime, began) >= deadlineMs) {
        throw new WaitTimeoutError(`${calls.label} was not granted within ${waitMs} ms.`, {
          ...waiting,
          waitedMs: waitMs,
        });
      }
      if (mayPark) leaveSocket ??= sockets.join();
      const granted = mayPark
        ? await waitParked(core, calls, remaining, { knownPlace, noteWaiting, signal: joined.signal })
        : undefined;
      if (granted !== undefined) return granted;
      // The service says when to come back. Until then the place is kept.
      const askedToPauseMs = Math.min(waiting.retryAfterMs ?? 0, remaining().leftMs);
      const pauseMs = Math.max(askedToPauseMs, pollMsMin - elapsedMs(runtime, answer.sentAt));
      if (pauseMs > 0) await pause(runtime, pauseMs, joined.signal);
    }
  } finally {
    leaveSocket?.();
    joined.letGo();
  }
}

type Remaining = () => { readonly leftMs: number; readonly askedMs: number };

interface Listening {
  /** Where the lease waits, by the last answer. Without it, the service must search the whole queue. */
  readonly knownPlace: () => number | undefined;
  readonly noteWaiting: (waiting: Waiting) => void;
  readonly signal: AbortSignal;
}

/**
 * Waits in the same place without an open request: the service sends the grant to the WebSocket. If the connection breaks,
 * it opens another one and parks the same lease again. Undefined if parking is not possible now, or if the wait is over.
 * Then the next poll tells which.
 */
async function waitParked(
  core: Core,
  calls: LeaseCalls,
  remaining: Remaining,
  { knownPlace, noteWaiting, signal }: Listening,
): Promise<Success | undefined> {
  const { caller, patience, parkTurns, runtime, sockets } = core;
  let parkedOn: ParkingSocket | undefined;
  while (remaining().leftMs > 0) {
    const silentSince = markNow(runtime);
    const socket = await unlessAborted(sockets.open(silentMsMax), signal);
    if (socket === undefined || calls.park === undefined) return undefined;
    // It listens before it sends the request, because the grant may arrive before the answer.
    const { message, forget } = socket.expect(calls.leaseId);
    const turn = parkTurns.take();
    try {
      // A wait that is parked here already only asks whether a message was lost. That can wait.
      const turnMs = parkedOn === socket ? lookMsMax : silentMsMax - elapsedMs(runtime, silentSince);
      let heard = await firstWithin(runtime, [message, turn.ready.then(() => 'turn' as const)], turnMs, signal);
      if (heard === 'silence') return undefined;
      if (heard === 'turn') {
        const policy = { deadlineMs: patience.requestMs, attemptMs: patience.requestMs, signal };
        const answer = await caller.call(calls.park(remaining().askedMs, socket.connectionId, knownPlace()), policy);
        turn.end();
        sockets.served();
        if (answer.status !== 202) return answer;
        parkedOn = socket;
        noteWaiting(answer.body as Waiting);
        // Any message may be lost, so it does not wait for ever.
        heard = await firstWithin(
          runtime,
          [message],
          Math.min(nextLookMs(runtime), Math.max(0, remaining().leftMs)),
          signal,
        );
      }
      if (heard === 'granted') {
        // Nobody knows how long the message took. A renewal gives a whole lease from a known time.
        return await caller.call(calls.renew(), {
          deadlineMs: patience.requestMs,
          attemptMs: patience.requestMs,
          urgent: true,
        });
      }
      if (heard === 'ended') return undefined;
    } catch (error) {
      // If the service is unavailable, the next poll retries for as long as the wait allows.
      if (isWorthRepeating(error)) return undefined;
      // The poll before was allowed, so the connection is the reason. It has ended, and this client may not know yet.
      if (!(error instanceof HoldfastError) || error.code !== 'forbidden') throw error;
      const wasOpen = socket.isOpen;
      sockets.discard(socket);
      if (wasOpen) return undefined;
    } finally {
      turn.end();
      forget();
    }
  }
  return undefined;
}

/** What happens first, or `silence` if nothing does within the time. */
async function firstWithin<T>(
  runtime: Runtime,
  events: readonly Promise<T>[],
  ms: number,
  signal: AbortSignal,
): Promise<T | 'silence'> {
  let cancel = () => {};
  const silence = new Promise<'silence'>((resolve) => {
    cancel = runtime.after(ms, () => resolve('silence'));
  });
  try {
    return await unlessAborted(Promise.race([...events, silence]), signal);
  } finally {
    cancel();
  }
}

/**
 * After a wait, the grant may have been made at any time since the request was sent. Counted from there, much of the
 * lease may be over. So the lease is renewed before anybody relies on it.
 */
async function confirm<Body extends Leased>(
  core: Core,
  calls: LeaseCalls,
  answer: { body: unknown; sentAt: Mark },
  leftMs: number,
): Promise<Taken<Body>> {
  const { caller, runtime, patience } = core;
  const body = answer.body as Body;
  const remainingMs = body.remainingMs ?? body.leaseMs ?? 0;
  const goneMs = elapsedMs(runtime, answer.sentAt);
  if (calls.sessionBound || goneMs < remainingMs / 3) return { calls, body, from: answer.sentAt, remainingMs };
  try {
    // If the grant came at the very end of the wait, there is still time for one renewal. Without it, the grant could not be used.
    const deadlineMs = Math.min(remainingMs, Math.max(leftMs, patience.tryMs));
    const renewed = await caller.call(calls.renew(), { deadlineMs, attemptMs: patience.requestMs, urgent: true });
    const again = renewed.body as Leased | undefined;
    return { calls, body, from: renewed.sentAt, remainingMs: again?.remainingMs ?? remainingMs };
  } catch (error) {
    if (error instanceof LeaseLostError || elapsedMs(runtime, answer.sentAt) >= remainingMs / 2) throw error;
    return { calls, body, from: answer.sentAt, remainingMs };
  }
}

/** If the client is closed, the wait ends and gives its place back. `close` waits for that. */
function endedByClose<T>(core: Core, waiting: Promise<T>): Promise<T> {
  void inBackground(core, waiting);
  return waiting;
}

/** True if the service itself refused. Then nothing can be held. */
const isRefusal = (error: unknown): boolean =>
  error instanceof HoldfastError && error.status !== undefined && !(error instanceof UnavailableError);

/** Releases the lease, if it was granted, or the place in the queue. If the request is lost, both end by themselves. */
function abandon(core: Core, calls: LeaseCalls): Promise<unknown> {
  return inBackground(core, core.caller.call(calls.release(), releasePolicyOf(core)));
}
