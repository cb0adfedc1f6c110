import { SendTaskFailureCommand, SendTaskSuccessCommand, type SFNClient } from '@aws-sdk/client-sfn';
import type { Completions, Delivered } from '../ports.ts';
import { outcomeOf } from './outcome.ts';

export class StepFunctionsTasks implements Completions {
  readonly #client: SFNClient;

  constructor({ client }: { client: SFNClient }) {
    this.#client = client;
  }

  succeed(token: string, output: Readonly<Record<string, unknown>>): Promise<Delivered> {
    const command = new SendTaskSuccessCommand({ taskToken: token, output: JSON.stringify(output) });
    return outcomeOf(this.#client.send(command));
  }

  fail(token: string, error: string, cause: string): Promise<Delivered> {
    return outcomeOf(this.#client.send(new SendTaskFailureCommand({ taskToken: token, error, cause })));
  }
}
