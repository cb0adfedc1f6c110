import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { localCallbacks, localTasks } from '../../../src/local/completions.ts';

describe('completions with a URL', () => {
  const log = { info: () => {}, warn: () => {}, error: () => {} };

  it('go there, signed by the keys of a local service', async () => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url} ${request.headers.authorization?.split('/')[2]}`);
      response.setHeader('content-type', 'application/json').end('{}');
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const region = 'eu-west-1';
    expect(await localTasks({ url, region, log }).succeed('token', {})).not.toBe('gone');
    expect(await localCallbacks({ url, region, log }).succeed('callback', {})).not.toBe('gone');
    expect(asked).toEqual(['POST / eu-west-1', expect.stringMatching(/^POST \/.*callback.* eu-west-1$/)]);
  });
});

describe('completions without a URL', () => {
  it.each([
    ['HOLDFAST_TASKS_URL', localTasks],
    ['HOLDFAST_CALLBACKS_URL', localCallbacks],
  ])('reach nobody, so that the grant goes to the next waiter, and the log names %s', async (variable, create) => {
    const lines: string[] = [];
    const log = { info: () => {}, warn: () => {}, error: (line: string) => void lines.push(line) };
    const completions = create({ url: undefined, region: 'us-east-1', log });
    expect(await completions.succeed('token', {})).toBe('gone');
    expect(await completions.fail('token', 'Holdfast.WaitTimeout', 'It was over.')).toBe('gone');
    expect(lines).toHaveLength(2);
    for (const line of lines) expect(line).toContain(`${variable} is not set`);
  });
});
