import type { Answer, Call } from '../../src/client/transport.ts';
import type { LockEvent } from '../../src/lock/events.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import type { SessionState } from '../../src/session/state.ts';
import type { Cause } from './cause.ts';
import type { LockPromises } from './lock-promises.ts';
import type { Verdicts } from './verdicts.ts';

/** How long an answer may take after its poll: ten rounds of a store that throttles and a few slow network paths, with a margin. */
const answerMsMax = 20_000 + 60_000;

const secrets = /\b([LS])-([a-z]+\d+)-\d{16}\b/g;

/** The promises about answers: they are true, come in time, and reach nobody else. */
export class AnswerPromises {
  readonly #verdicts: Verdicts;
  readonly #locks: LockPromises;
  readonly #now: () => number;
  readonly #session: (sessionId: string) => SessionState | undefined;
  readonly #pausedMs: (host: string) => number;
  /** The owner of each session: the client that first got its id. */
  readonly #sessionOwners = new Map<string, string>();
  /** When each session ended, by true time. */
  readonly #sessionEnds = new Map<string, number>();

  /** Requests for several locks that arrived, by their lease. */
  readonly #copies = new Map<string, number>();

  constructor(parts: {
    verdicts: Verdicts;
    locks: LockPromises;
    now: () => number;
    session: (sessionId: string) => SessionState | undefined;
    pausedMs: (host: string) => number;
  }) {
    this.#verdicts = parts.verdicts;
    this.#locks = parts.locks;
    this.#now = parts.now;
    this.#session = parts.session;
    this.#pausedMs = parts.pausedMs;
  }

  arrived({ operation, leaseId = '' }: Cause): void {
    if (operation === 'acquireLocks') this.#copies.set(leaseId, (this.#copies.get(leaseId) ?? 0) + 1);
  }

  answered(cause: Cause, call: Call, answer: Answer): void {
    this.#verdicts.count(`${cause.operation} ${answer.status}`);
    if (answer.status === 500)
      this.#breach('answers', cause, answer, 'the service failed in a way that should not happen');
    if (cause.operation === 'createSession' && answer.status === 201) {
      this.#sessionOwners.set((answer.body as { sessionId: string }).sessionId, cause.client);
    }
    this.#checkSecrets(cause, answer);
    const tookMs = this.#now() - cause.arrivedAt;
    if (tookMs > answerMsMax + this.#pausedMs(cause.host))
      this.#breach('bounded', cause, answer, `the answer took ${tookMs} ms`);
    if (cause.operation === 'acquireLocks' && answer.status === 409) this.#checkNoneHeld(cause, answer);
    if (answer.status !== 200) return;
    if (cause.operation === 'acquireLock' || cause.operation === 'renewLock') this.#checkGranted(cause, answer);
    if (cause.operation === 'acquireLocks' || cause.operation === 'renewLocks') this.#checkAllGranted(cause, answer);
    if (cause.operation === 'keepSessionAlive') this.#checkSessionOpen(cause, answer);
    if (call.body !== undefined && cause.operation.startsWith('acquire')) this.#checkSessionOpen(cause, answer);
  }

  sessionWritten(before: SessionState | undefined, after: SessionState): void {
    const { sessionId } = after;
    if (before?.ended !== undefined && after.ended === undefined)
      this.#verdicts.breach('sessions', `${sessionId} came back`, { before, after });
    if (before?.ended !== undefined && after.expiresAt !== before.expiresAt)
      this.#verdicts.breach('sessions', `${sessionId} was kept alive after its end`, { before, after });
    if (
      before !== undefined &&
      after.expiresAt !== before.expiresAt &&
      after.expiresAt - after.ttlMs >= before.expiresAt
    )
      this.#verdicts.breach('sessions', `${sessionId} was kept alive when its time was over`, { before, after });
    if (
      before?.ended === undefined &&
      after.ended?.how === 'expired' &&
      after.ended.at < after.expiresAt + lockLimits.graceMs
    )
      this.#verdicts.breach('sessions', `${sessionId} was marked as ended before its end and the grace`, {
        before,
        after,
      });
    if (after.ended !== undefined && !this.#sessionEnds.has(sessionId)) this.#sessionEnds.set(sessionId, this.#now());
  }

  /** Many people and programs read events, so they must have no secrets. */
  checkEvents(name: string, events: readonly LockEvent[]): void {
    if (JSON.stringify(events).search(secrets) >= 0)
      this.#verdicts.breach('secrets', `${name}: an event names a secret`, events);
  }

  /** A grant in an answer was really made, was valid at some time during the request, and has its own fence. */
  #checkGranted(cause: Cause, answer: Answer): void {
    const { leaseId, fence } = answer.body as { leaseId: string; fence: number };
    const [name = ''] = cause.names;
    const tenancy = this.#locks.tenancyOf(name, leaseId);
    if (leaseId !== cause.leaseId || tenancy?.fence !== fence)
      this.#breach('fail closed', cause, answer, `fence ${fence} of ${leaseId} was never granted`);
    else if (tenancy.until !== undefined && tenancy.until < cause.arrivedAt)
      this.#breach('only the holder', cause, answer, `the lease of ${leaseId} had ended before`);
  }

  /** All of them were valid at one instant between request and answer. */
  #checkAllGranted(cause: Cause, answer: Answer): void {
    const { grants } = answer.body as { grants: readonly { lock: string; fence: number }[] };
    const tenancies = grants.map(({ lock, fence }) => {
      const tenancy = this.#locks.tenancyOf(lock, cause.leaseId ?? '');
      if (tenancy?.fence !== fence)
        this.#breach('all or nothing', cause, answer, `${lock} was never granted with fence ${fence}`);
      return tenancy;
    });
    if (grants.map(({ lock }) => lock).join() !== cause.names.join())
      this.#breach('all or nothing', cause, answer, 'the grants are not those asked for');
    const from = Math.max(cause.arrivedAt, ...tenancies.map((tenancy) => tenancy?.from ?? 0));
    const until = Math.min(...tenancies.map((tenancy) => tenancy?.until ?? Number.POSITIVE_INFINITY));
    if (until < from) this.#breach('all or nothing', cause, answer, 'they were never held all at once');
  }

  /**
   * A refused request holds nothing, unless another copy of it is still being handled, or its caller was gone. If its
   * session is over, its locks name it as their holder until somebody writes to them, but it holds none.
   */
  #checkNoneHeld(cause: Cause, answer: Answer): void {
    const { leaseId = '', sessionId = '', names, gone } = cause;
    if (gone?.aborted || (this.#copies.get(leaseId) ?? 0) > 1 || this.#session(sessionId)?.ended !== undefined) return;
    const held = names.filter((name) => {
      const tenancy = this.#locks.tenancyOf(name, leaseId);
      return tenancy !== undefined && tenancy.until === undefined;
    });
    if (held.length > 0) this.#breach('all or nothing', cause, answer, `it was refused and holds ${held.join()}`);
  }

  #checkSessionOpen(cause: Cause, answer: Answer): void {
    const { sessionId } = cause;
    if (sessionId === undefined) return;
    const endedAt = this.#sessionEnds.get(sessionId);
    if (this.#session(sessionId)?.ended !== undefined && endedAt !== undefined && endedAt < cause.arrivedAt)
      this.#breach('sessions', cause, answer, `${sessionId} had ended before`);
  }

  #checkSecrets(cause: Cause, answer: Answer): void {
    for (const [secret, kind, owner] of JSON.stringify(answer.body ?? null).matchAll(secrets)) {
      const belongsTo = kind === 'S' ? this.#sessionOwners.get(secret) : owner;
      if (belongsTo !== cause.client) this.#breach('secrets', cause, answer, `${secret} was shown to ${cause.client}`);
    }
  }

  #breach(promise: string, { knownDead: _, gone: __, ...cause }: Cause, answer: Answer, what: string): void {
    this.#verdicts.breach(promise, `${cause.operation} of ${cause.client}: ${what}`, { cause, answer });
  }
}
