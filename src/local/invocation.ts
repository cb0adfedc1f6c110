import type { Context } from 'aws-lambda';

/**
 * The Lambda context as the local gateway gives it, plus the one thing that only a gateway in the same process knows.
 */
export interface LocalContext extends Context {
  /**
   * Aborts once nobody will read the answer: the client's connection broke, or the gateway has already answered that
   * the time was up. Lambda is never told either, so a deployed handler finds this property absent and must
   * bound its waiting by time alone.
   */
  readonly clientGone: AbortSignal;
}

/** One call of a handler. Made for each request, so it keeps what most handlers never ask for until they do. */
export class Invocation implements LocalContext {
  readonly awsRequestId: string;
  readonly functionName = 'holdfast-local';
  readonly functionVersion = '$LATEST';
  readonly invokedFunctionArn = 'arn:aws:lambda:local:000000000000:function:holdfast-local';
  readonly logGroupName = '/aws/lambda/holdfast-local';
  readonly logStreamName = 'local';
  // Lambda's smallest size: code that sizes itself by this stays modest on a laptop.
  readonly memoryLimitInMB = '128';
  callbackWaitsForEmptyEventLoop = false;

  readonly #endsAtMs: number;
  #isGone = false;
  #controller: AbortController | undefined;

  constructor(awsRequestId: string, endsAtMs: number) {
    this.awsRequestId = awsRequestId;
    this.#endsAtMs = endsAtMs;
  }

  /** Made on first use: an AbortController for each request would cost more than the rest of the gateway's work. */
  get clientGone(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#isGone) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  markClientGone(): void {
    this.#isGone = true;
    this.#controller?.abort();
  }

  /** Works detached too, as Lambda's own does: middlewares take it off the context. */
  readonly getRemainingTimeInMillis = (): number => Math.max(0, this.#endsAtMs - Date.now());

  // The type still lists these three, but Lambda's Node 24 runtime has no callbacks any more, and neither has this.
  done(): never {
    throw new Error('A handler answers by its promise.');
  }

  fail(): never {
    throw new Error('A handler answers by its promise.');
  }

  succeed(): never {
    throw new Error('A handler answers by its promise.');
  }
}
