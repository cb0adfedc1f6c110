import { type ApiGatewayManagementApiClient, PostToConnectionCommand } from '@aws-sdk/client-apigatewaymanagementapi';
import type { Connections, Delivered } from '../ports.ts';
import { outcomeOf } from './calls.ts';

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
