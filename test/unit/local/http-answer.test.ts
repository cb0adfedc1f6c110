import { describe, expect, it } from 'vitest';
import {
  failedAnswer,
  formatRawAnswer,
  framedHeaders,
  refusalAnswer,
  timedOutAnswer,
} from '../../../src/local/http-answer.ts';

describe('framedHeaders', () => {
  it('says the length of a body in bytes', () => {
    expect(framedHeaders({ status: 200, headers: { etag: '"1"' }, body: 'ü' })).toEqual({
      etag: '"1"',
      'content-length': '2',
    });
    expect(framedHeaders({ status: 200, headers: {}, body: undefined })).toEqual({ 'content-length': '0' });
  });

  it.each([204, 304])('says no length with %d', (status) => {
    expect(framedHeaders({ status, headers: { etag: '"1"' }, body: undefined })).toEqual({ etag: '"1"' });
  });
});

describe('refusalAnswer', () => {
  it('has the form of every other problem', () => {
    const refusal = { status: 431, title: 'Too Large', code: 'invalid-request', detail: 'Too many headers.' };
    const { status, headers, body } = refusalAnswer(refusal, 'request-7');
    expect([status, headers['content-type'], headers['x-request-id']]).toEqual([
      431,
      'application/problem+json',
      'request-7',
    ]);
    expect(JSON.parse(body ?? '')).toMatchObject({
      type: 'urn:holdfast:problem:invalid-request',
      status: 431,
      detail: 'Too many headers.',
      instance: 'urn:holdfast:request:request-7',
      code: 'invalid-request',
    });
  });
});

describe("the gateway's own answers", () => {
  it('have the status, the text and the request id of API Gateway', () => {
    const headers = { 'content-type': 'application/json', 'x-request-id': 'request-7' };
    expect(failedAnswer('request-7')).toEqual({ status: 500, headers, body: '{"message":"Internal Server Error"}' });
    expect(timedOutAnswer('request-7')).toEqual({
      ...{ status: 504, headers, body: '{"message":"Endpoint request timed out"}' },
    });
  });
});

describe('formatRawAnswer', () => {
  it('has no body if there is none, and writes headers byte by byte', () => {
    const raw = formatRawAnswer({ status: 299, headers: { 'x-owner': 'ü' }, body: undefined });
    expect(raw.toString('latin1')).toBe(
      'HTTP/1.1 299 Unknown\r\nx-owner: ü\r\ncontent-length: 0\r\nconnection: close\r\n\r\n',
    );
  });

  it('writes a whole HTTP response that ends its connection', () => {
    const headers = { 'content-type': 'text/plain; charset=utf-8' };
    expect(formatRawAnswer({ status: 403, headers, body: 'ü' }).toString()).toBe(
      'HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 2\r\nconnection: close\r\n\r\nü',
    );
  });

  it('refuses a header that would smuggle in another', () => {
    const answer = { status: 200, headers: { 'x-a': 'b\r\nx-c: d' }, body: undefined };
    expect(() => formatRawAnswer(answer)).toThrow('x-a');
    expect(() => formatRawAnswer({ ...answer, headers: { 'x-a: b\r\nx-c': 'd' } })).toThrow('Header name');
  });
});
