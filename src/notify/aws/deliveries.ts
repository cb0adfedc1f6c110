/** Deliveries that AWS makes: to a WebSocket connection, to a task of Step Functions, to a callback of a Lambda durable function. */
import { type ApiGatewayManagementApiClient, PostToConnectionCommand } from '@aws-sdk/client-apigatewaymanagementapi';
import {
  type LambdaClient,
  SendDurableExecutionCallbackFailureCommand,
  SendDurableExecutionCallbackSuccessCommand,
} from '@aws-sdk/client-lambda';
import { SendTaskFailureCommand, SendTaskSuccessCommand, type SFNClient } from '@aws-sdk/client-sfn';
import type { Completions, Connections, Delivered } from '../ports.ts';
import { outcomeOf } from './calls.ts';

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

/**
 * Callbacks of Lambda durable functions. Lambda answers `CallbackTimeoutException` if the callback is over or was
 * completed before, and `ResourceNotFoundException` if its execution is gone. In both cases nobody waits any more.
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

export class ApiGatewayConnections implements Connections {
  readonly #client: ApiGatewayManagementApiClient;

  constructor({ client }: { client: ApiGatewayManagementApiClient }) {
    this.#client = client;
  }

  post(connectionId: string, text: string): Promise<Delivered> {
    const Data = new TextEncoder().encode(text);
    return outcomeOf(this.#client.send(new PostToConnectionCommand({ ConnectionId: connectionId, Data })));
  }
}
