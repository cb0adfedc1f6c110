import {
  type LambdaClient,
  SendDurableExecutionCallbackFailureCommand,
  SendDurableExecutionCallbackSuccessCommand,
} from '@aws-sdk/client-lambda';
import type { Completions, Delivered } from '../ports.ts';
import { outcomeOf } from './outcome.ts';

/**
 * Callbacks of Lambda durable functions. Lambda answers `CallbackTimeoutException` for one that is over or was completed before, and
 * `ResourceNotFoundException` for one whose execution is gone: nobody waits there any more.
 */
export class LambdaCallbacks implements Completions {
  readonly #client: LambdaClient;

  constructor({ client }: { client: LambdaClient }) {
    this.#client = client;
  }

  succeed(id: string, output: Readonly<Record<string, unknown>>): Promise<Delivered> {
    const Result = new TextEncoder().encode(JSON.stringify(output));
    return outcomeOf(this.#client.send(new SendDurableExecutionCallbackSuccessCommand({ CallbackId: id, Result })));
  }

  fail(id: string, error: string, cause: string): Promise<Delivered> {
    const failure = { ErrorType: error, ErrorMessage: cause };
    return outcomeOf(
      this.#client.send(new SendDurableExecutionCallbackFailureCommand({ CallbackId: id, Error: failure })),
    );
  }
}
