import { type ApiGatewayManagementApiClient, PostToConnectionCommand } from '@aws-sdk/client-apigatewaymanagementapi';
import { attemptsOf } from '../../store/dynamodb/failures.ts';
import type { Connections, Delivered } from '../ports.ts';

/** 410, and the answers to an id that never was a connection: nobody is there, and nobody will be. */
const finalErrors = new Set(['GoneException', 'BadRequestException', 'ValidationException']);

export class ApiGatewayConnections implements Connections {
  readonly #client: ApiGatewayManagementApiClient;

  constructor({ client }: { client: ApiGatewayManagementApiClient }) {
    this.#client = client;
  }

  async post(connectionId: string, text: string): Promise<Delivered> {
    try {
      await this.#client.send(
        new PostToConnectionCommand({ ConnectionId: connectionId, Data: new TextEncoder().encode(text) }),
      );
      return 'sent';
    } catch (error) {
      // A client may have received the first try and closed its connection before the second.
      if (error instanceof Error && finalErrors.has(error.name) && attemptsOf(error) === 1) return 'gone';
      throw error;
    }
  }
}
