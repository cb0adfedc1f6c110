import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { patientServer } from './patient-server.ts';

/** Starts a DynamoDB that refuses everything with one error, until the test is over. Returns its address. */
export async function refusingDynamoDB(type: string): Promise<`http://${string}`> {
  const server = patientServer((_, response) => {
    response.writeHead(400, { 'content-type': 'application/x-amz-json-1.0' });
    response.end(JSON.stringify({ __type: `com.amazon.coral.service#${type}`, message: 'no' }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
