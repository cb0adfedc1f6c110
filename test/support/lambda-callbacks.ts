import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { patientServer } from './patient-server.ts';

export interface CompletedCallback {
  readonly id: string;
  readonly outcome: 'succeed' | 'fail';
  readonly body: string;
}

/** The part of Lambda's API that completes callbacks. Each completion is passed to the test. */
export async function startCallbacks(complete: (callback: CompletedCallback) => Promise<void>) {
  const completed: CompletedCallback[] = [];
  const server = patientServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const [, id = '', outcome] =
      /\/durable-execution-callbacks\/(.+)\/(succeed|fail)$/.exec(decodeURIComponent(request.url ?? '')) ?? [];
    const callback = { id, outcome: outcome as 'succeed' | 'fail', body };
    try {
      await complete(callback);
      completed.push(callback);
      response.end('{}');
    } catch {
      response.writeHead(400, { 'x-amzn-errortype': 'CallbackTimeoutException' });
      response.end(JSON.stringify({ message: 'closed' }));
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    completed,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}
