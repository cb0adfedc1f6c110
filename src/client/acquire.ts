import { requestLimits } from '../contract/limits.ts';
import type { Waiting } from '../contract/views.ts';
import { joinSignals, unlessAborted } from './abort.ts';
import { isWorthRepeating, type Success } from './caller.ts';
import { type Core, inBackground, releasePolicyOf } from './core.ts';
import { HoldfastError, LeaseLostError, UnavailableError, WaitTimeoutError } from './errors.ts';
import { elapsedMs, type Mark, markNow, pause, type Runtime } from './runtime.ts';
import type { SocketNews } from './sockets.ts';
import type { Call } from './transport.ts';

/** The requests of one lease: the same for one lock and for several. */
export interface Claim {
  /** How it is called in errors and events. */
  readonly label: string;
  readonly leaseId: string;
  /** Whether a session bounds it, so that it has no lease of its own. */
  readonly sessionBound: boolean;
  /**
   * What a repeated request says about the wait. One lock: what is left of it, since the deadline stands with the place in the queue.
   * Several: the same as at first, since the service counts from the first request for as long as it holds some of them.
   */
  readonly repeats: 'what is left' | 'the whole wait';
  /** `place`: where the lease waits, as the last answer said; `new` if it was never sent before. */
  acquire(
    waitMs: number,
    how?: { readonly pollMs?: number | undefined; readonly place?: number | 'new' | undefined },
  ): Call;
  /** The same wait, parked on a WebSocket connection. Absent where that is not offered. */
  park?(waitMs: number, connectionId: string, place?: number): Call;
  renew(leaseMs?: number): Call;
  release(): Call;
}

export interface TakeOptions {
  /** 0 tries once. */
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly onWaiting?: ((place: Waiting) => void) | undefined;
  /** All of it ends within this time: the wait, the retries and the answer. */
  readonly deadlineMs?: number | undefined;
  /** How long an unavailable service is retried, if not for the whole wait: a caller may rather go on without the lock. */
  readonly unavailableBudgetMs?: number | undefined;
}

/** When a wait and everything around it ends, counted from its beginning. */
interface Bounds {
  readonly waitMs: number;
  /** No retry begins later. */
  readonly retryMs: number;
  readonly deadlineMs: number;
}

/** Left of a deadline for the answer that the wait is over: a round trip, and no more than a quarter of a short deadline. */
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

/** A grant that is still known to stand. */
export interface Taken<Body> {
  readonly claim: Claim;
  readonly body: Body;
  /** Before the request was sent that granted or confirmed it. */
  readonly from: Mark;
  readonly remainingMs: number;
}

/** What a grant says of its time; a session bounds one that has no lease of its own. */
export interface Leased {
  readonly leaseMs?: number;
  readonly remainingMs?: number | null;
}

/** If a lease ended before its grant arrived, the lock is asked for again. If that happens more often than this, something else is wrong. */
const leasesMax = 3;
/** A service that answers "waiting" at once, instead of keeping the request open, is not asked in a busy loop. */
const pollMsMin = 100;
/** About where parking costs less than keeping a request open for as long: docs/cost.md has the arithmetic. */
const parkAfterMs = 2_000;
/** A message may be lost. Less than a usual lease of 30 s, so that a lost grant is found while its lease lasts. */
const lookEveryMs = 25_000;

/**
 * Takes a lock, waiting for as long as was asked. One lease id serves for all repeats of a request, so that a lost answer is found
 * again; a new one is made only if the service says that the old lease is over.
 */
export async function take<Body extends Leased>(
  core: Core,
  newClaim: (leaseId: string) => Claim,
  options: TakeOptions,
): Promise<Taken<Body>> {
  const began = markNow(core.runtime);
  const bounds = boundsOf(core, options);
  for (let leases = 1; ; leases++) {
    const claim = newClaim(core.runtime.newId());
    try {
      const answer = await wait(core, claim, began, bounds, options);
      return await confirm<Body>(core, claim, answer, bounds.deadlineMs - elapsedMs(core.runtime, began));
    } catch (error) {
      if (!isRefusal(error)) void abandon(core, claim);
      const gone = error instanceof LeaseLostError && (error.reason === 'expired' || error.reason === 'not_owner');
      const timeLeft = elapsedMs(core.runtime, began) < bounds.retryMs;
      if (!gone || leases >= leasesMax || !timeLeft) throw error;
    }
  }
}

/**
 * Waits for the turn of a claim, and gives it back as soon as it has come. Whether the lease still stands by then does not matter: that
 * the lock was granted says that those before it are done.
 */
export async function awaitTurn(
  core: Core,
  claim: Claim,
  options: TakeOptions,
): Promise<{ readonly givenBack: Promise<unknown> }> {
  try {
    await wait(core, claim, markNow(core.runtime), boundsOf(core, options), options);
  } catch (error) {
    if (error instanceof LeaseLostError && error.reason === 'expired') return { givenBack: Promise.resolve() };
    if (!isRefusal(error)) void abandon(core, claim);
    throw error;
  }
  return { givenBack: abandon(core, claim) };
}

/** Asks until it is granted or refused. A 202 means: still in the queue, ask again, or wait parked. */
async function wait(
  core: Core,
  claim: Claim,
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
    return { leftMs, askedMs: claim.repeats === 'the whole wait' ? wholeMs : millisecondsOf(leftMs) };
  };
  let place: number | 'new' | undefined = 'new';
  let isQueued = false;
  try {
    for (;;) {
      const passedMs = elapsedMs(runtime, began);
      const { leftMs, askedMs } = remaining();
      const mayPark = claim.park !== undefined && sockets.isPossible && leftMs > parkAfterMs;
      const pollMs = mayPark ? parkAfterMs : undefined;
      const answer = await caller.call(claim.acquire(askedMs, { pollMs, place }), {
        // Sent once, the lease is not new any more, whatever became of it.
        again: claim.acquire(askedMs, { pollMs, place: place === 'new' ? undefined : place }),
        deadlineMs: Math.max(1, deadlineMs - passedMs),
        retryMs: retryMs - passedMs,
        attemptMs: patience.requestMs + Math.min(askedMs, requestLimits.answerMsMax),
        signal: joined.signal,
        // A waiter that ended here would leave its place behind, and a waiter on a socket would be granted for nobody.
        goesOn: isQueued,
      });
      if (answer.status !== 202) return answer;
      const waiting = answer.body as Waiting;
      isQueued = true;
      place = waiting.place;
      onWaiting?.(waiting);
      // The service ends the wait by its own clock; ours only bounds what it should have done.
      if (elapsedMs(runtime, began) >= deadlineMs) {
        throw new WaitTimeoutError(`${claim.label} was not granted within ${waitMs} ms.`, {
          ...waiting,
          waitedMs: waitMs,
        });
      }
      const granted = mayPark
        ? await waitParked(core, claim, remaining, { place, onWaiting, signal: joined.signal })
        : undefined;
      if (granted !== undefined) return granted;
      const tookMs = elapsedMs(runtime, answer.sentAt);
      if (tookMs < pollMsMin) await pause(runtime, pollMsMin - tookMs, joined.signal);
    }
  } finally {
    joined.letGo();
  }
}

type Remaining = () => { readonly leftMs: number; readonly askedMs: number };

interface Listening {
  /** Where the lease waits, as the last answer said. Without it the service looks through the whole queue. */
  readonly place: number | undefined;
  readonly onWaiting: TakeOptions['onWaiting'];
  readonly signal: AbortSignal;
}

/**
 * Waits in the same place without a request being open: the service tells the socket of the grant. Undefined where that is not possible
 * now, or where the wait is over: then the next poll says more. A connection that breaks is replaced, and the same lease parked again.
 */
async function waitParked(
  core: Core,
  claim: Claim,
  remaining: Remaining,
  { place: placeBefore, onWaiting, signal }: Listening,
): Promise<Success | undefined> {
  const { caller, patience, runtime, sockets } = core;
  let place = placeBefore;
  while (remaining().leftMs > 0) {
    const socket = await unlessAborted(sockets.open(), signal);
    if (socket === undefined || claim.park === undefined) return undefined;
    // Before the request: the grant may be told before its answer arrives.
    const { news, forget } = socket.expect(claim.leaseId);
    try {
      const policy = { deadlineMs: patience.requestMs, attemptMs: patience.requestMs, signal };
      const answer = await caller.call(claim.park(remaining().askedMs, socket.connectionId, place), policy);
      sockets.served();
      if (answer.status !== 202) return answer;
      const waiting = answer.body as Waiting;
      place = waiting.place;
      onWaiting?.(waiting);
      // A message may be lost, and the end of the wait too.
      const heard = await newsWithin(runtime, news, Math.min(lookEveryMs, Math.max(0, remaining().leftMs)), signal);
      if (heard === 'granted') {
        // How long the message took is not known. The renewal's own time is, and lasts for a whole lease.
        return await caller.call(claim.renew(), {
          deadlineMs: patience.requestMs,
          attemptMs: patience.requestMs,
          urgent: true,
        });
      }
      if (heard === 'ended') return undefined;
    } catch (error) {
      // The next poll has the wait's own bounds for a service that is away.
      if (isWorthRepeating(error)) return undefined;
      // The poll was allowed, so it is the connection that is not: it has ended, perhaps before this client noticed.
      if (!(error instanceof HoldfastError) || error.code !== 'forbidden') throw error;
      const wasOpen = socket.isOpen;
      sockets.discard(socket);
      if (wasOpen) return undefined;
    } finally {
      forget();
    }
  }
  return undefined;
}

/** What is heard within the time; `silence` where nothing is. */
async function newsWithin(
  runtime: Runtime,
  news: Promise<SocketNews>,
  ms: number,
  signal: AbortSignal,
): Promise<SocketNews | 'silence'> {
  let cancel = () => {};
  const silence = new Promise<'silence'>((resolve) => {
    cancel = runtime.after(ms, () => resolve('silence'));
  });
  try {
    return await unlessAborted(Promise.race([news, silence]), signal);
  } finally {
    cancel();
  }
}

/**
 * A grant that was waited for may have been made at any time since the request was sent, and counting from there, much of the lease
 * may be gone. So it is renewed before anybody relies on it.
 */
async function confirm<Body extends Leased>(
  core: Core,
  claim: Claim,
  answer: { body: unknown; sentAt: Mark },
  leftMs: number,
): Promise<Taken<Body>> {
  const { caller, runtime, patience } = core;
  const body = answer.body as Body;
  const remainingMs = body.remainingMs ?? body.leaseMs ?? 0;
  const goneMs = elapsedMs(runtime, answer.sentAt);
  if (claim.sessionBound || goneMs < remainingMs / 3) return { claim, body, from: answer.sentAt, remainingMs };
  try {
    // A grant that came with the last of the time gets a moment more: without it, it would be of no use.
    const deadlineMs = Math.min(remainingMs, Math.max(leftMs, patience.tryMs));
    const renewed = await caller.call(claim.renew(), { deadlineMs, attemptMs: patience.requestMs, urgent: true });
    const again = renewed.body as Leased | undefined;
    return { claim, body, from: renewed.sentAt, remainingMs: again?.remainingMs ?? remainingMs };
  } catch (error) {
    if (error instanceof LeaseLostError || elapsedMs(runtime, answer.sentAt) >= remainingMs / 2) throw error;
    return { claim, body, from: answer.sentAt, remainingMs };
  }
}

/** Whether the service itself said no, so that nothing can be held. */
const isRefusal = (error: unknown): boolean =>
  error instanceof HoldfastError && error.status !== undefined && !(error instanceof UnavailableError);

/** Gives back what may have been granted, or the place in the queue. Best effort: what is lost here ends by itself. */
function abandon(core: Core, claim: Claim): Promise<unknown> {
  return inBackground(core, core.caller.call(claim.release(), releasePolicyOf(core)));
}
