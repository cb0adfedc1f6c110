import { SendTaskFailureCommand, SendTaskSuccessCommand, type SFNClient } from '@aws-sdk/client-sfn';
import { attemptsOf } from '../../store/dynamodb/failures.ts';
import type { Delivered, TaskTokens } from '../ports.ts';

/** The task is over or never existed: no retry will find it. */
const finalErrors = new Set(['TaskDoesNotExist', 'TaskTimedOut', 'InvalidToken']);

export class StepFunctionsTasks implements TaskTokens {
  readonly #client: SFNClient;

  constructor({ client }: { client: SFNClient }) {
    this.#client = client;
  }

  succeed(token: string, output: Readonly<Record<string, unknown>>): Promise<Delivered> {
    return deliver(this.#client.send(new SendTaskSuccessCommand({ taskToken: token, output: JSON.stringify(output) })));
  }

  fail(token: string, error: string, cause: string): Promise<Delivered> {
    return deliver(this.#client.send(new SendTaskFailureCommand({ taskToken: token, error, cause })));
  }
}

async function deliver(sending: Promise<unknown>): Promise<Delivered> {
  try {
    await sending;
    return 'sent';
  } catch (error) {
    // A task that got its answer is over. So a second try finds it gone although the first one arrived.
    if (error instanceof Error && finalErrors.has(error.name) && attemptsOf(error) === 1) return 'gone';
    throw error;
  }
}
