import { describe, expect, it } from 'vitest';
import { formatRawAnswer, InvalidAnswerError, toHttpAnswer } from '../../../src/local/http-answer.ts';

describe('toHttpAnswer', () => {
  it.each([
    ['a string', 'hello', 'hello', '5'],
    ['an object without a status', { a: 'ü' }, '{"a":"ü"}', '10'],
    ['an array', [1], '[1]', '3'],
    ['a number', 7, '7', '1'],
    ['an object whose status is undefined', { statusCode: undefined, body: 'x' }, '{"body":"x"}', '12'],
  ])('infers a JSON 200 from %s', (_title, result, body, length) => {
    const headers = ['content-type', 'application/json', 'content-length', length];
    expect(toHttpAnswer(result)).toEqual({ statusCode: 200, headers, body });
  });

  it('takes over status, headers, cookies and body', () => {
    const answer = toHttpAnswer({
      statusCode: 201,
      headers: { 'Content-Type': 'application/json', ETag: '"1"', 'retry-after': 2, 'x-flag': true },
      cookies: ['a=1; Path=/', 'b=2'],
      body: '{}',
    });
    expect(answer).toEqual({
      statusCode: 201,
      headers: [
        ...['content-type', 'application/json', 'etag', '"1"', 'retry-after', '2', 'x-flag', 'true'],
        ...['set-cookie', 'a=1; Path=/', 'set-cookie', 'b=2', 'content-length', '2'],
      ],
      body: '{}',
    });
  });

  it('labels a body without a content type as plain text', () => {
    expect(toHttpAnswer({ statusCode: 200, body: 'x' }).headers).toContain('text/plain; charset=utf-8');
    expect(toHttpAnswer({ statusCode: 200 }).headers).toEqual(['content-length', '0']);
  });

  it('decodes a base64 body', () => {
    const answer = toHttpAnswer({ statusCode: 200, body: '/wA=', isBase64Encoded: true });
    expect(answer.body).toEqual(Buffer.from([0xff, 0]));
    expect(answer.headers).toContain('2');
  });

  it.each([204, 304])('sends no body and no length with %d', (statusCode) => {
    const answer = toHttpAnswer({ statusCode, headers: { etag: '"1"' } });
    expect(answer).toEqual({ statusCode, headers: ['etag', '"1"'], body: '' });
  });

  it('does not let a handler break the framing', () => {
    const headers = { 'Content-Length': '99', 'transfer-encoding': 'chunked', Connection: 'close' };
    expect(toHttpAnswer({ statusCode: 200, headers }).headers).toEqual(['content-length', '0']);
  });

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a function', () => 1],
    ['a status that is text', { statusCode: '200' }],
    ['a status that is no status', { statusCode: 0 }],
    ['an informational status', { statusCode: 100 }],
    ['a body that is an object', { statusCode: 200, body: { a: 1 } }],
    ['headers that are text', { statusCode: 200, headers: 'a: b' }],
  ])('refuses %s', (_title, result) => {
    expect(() => toHttpAnswer(result)).toThrow(InvalidAnswerError);
  });
});

describe('formatRawAnswer', () => {
  it('writes a whole HTTP response that ends its connection', () => {
    expect(formatRawAnswer(toHttpAnswer({ statusCode: 403, body: 'ü' })).toString()).toBe(
      'HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 2\r\nconnection: close\r\n\r\nü',
    );
  });

  it('refuses a header that would smuggle in another', () => {
    const answer = toHttpAnswer({ statusCode: 200, headers: { 'x-a': 'b\r\nx-c: d' } });
    expect(() => formatRawAnswer(answer)).toThrow('x-a');
  });
});
