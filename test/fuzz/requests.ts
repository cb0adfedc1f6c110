/**
 * Requests that nobody should send: made from the published contract and then changed, or from raw bytes. All from one
 * seed.
 */
import { openApiDocument } from '../../src/http/openapi.ts';
import type { Chance } from '../world/chance.ts';

export type FuzzRequest =
  | {
      readonly kind: 'http';
      readonly method: string;
      readonly path: string;
      readonly headers: Readonly<Record<string, string>>;
      readonly body?: Buffer | undefined;
    }
  /** Written to a socket as it is. */
  | { readonly kind: 'raw'; readonly bytes: Buffer };

interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly pattern?: string;
}

interface Described {
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly schema?: Schema }[];
  readonly body?: Schema | undefined;
}

interface OperationObject {
  readonly parameters?: Described['parameters'];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: Schema }>> };
}

const operations: readonly Described[] = Object.entries(
  openApiDocument('fuzz').paths as unknown as Record<string, Record<string, OperationObject>>,
).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { parameters = [], requestBody }]) => ({
    method: method.toUpperCase(),
    path,
    parameters,
    body: requestBody?.content['application/json']?.schema,
  })),
);

const oddStrings: readonly string[] = [
  '',
  ' ',
  '\0',
  '\n',
  '../../etc/passwd',
  '%00',
  '%',
  '%zz',
  '%2e%2e%2f',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'null',
  'NaN',
  '0x10',
  '1e999',
  '-1',
  '💥',
  '\ud800',
  'é'.normalize('NFD'),
  '<script>alert(1)</script>',
  "'; DROP TABLE locks; --",
  '#rev = :one',
  '$' + '{jndi:ldap://x}',
  'a'.repeat(256),
  'a'.repeat(5_000),
  '"',
  '\\',
  '{"$ne":null}',
];

const oddNumbers: readonly number[] = [
  -1,
  0,
  0.5,
  1,
  999,
  1_000,
  2 ** 31,
  2 ** 53,
  2 ** 53 + 2,
  -(2 ** 53),
  1e21,
  1e308,
  86_400_000,
  86_400_001,
];

const oddValue = (chance: Chance): unknown =>
  chance.pick<() => unknown>([
    () => null,
    () => true,
    () => [],
    () => ({}),
    () => [[[]]],
    () => chance.pick(oddNumbers),
    () => chance.pick(oddStrings),
    () => Array.from({ length: chance.pick([1, 60, 2_000]) }, () => chance.pick(oddStrings)),
    () => ({ [chance.pick(oddStrings)]: chance.pick(oddStrings) }),
    () => nested(chance.pick([10, 200, 3_000])),
  ])();

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

/** A value that the schema allows in most cases. */
function fitting(schema: Schema, chance: Chance, field = ''): unknown {
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return chance.pick(schema.enum);
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices !== undefined) return fitting(chance.pick(choices), chance, field);
  switch (schema.type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {})
          .filter(([name]) => schema.required?.includes(name) || chance.happens(0.3))
          .map(([name, inner]) => [name, fitting(inner, chance, name)]),
      );
    case 'array':
      return Array.from({ length: chance.between(1, 4) }, () => fitting(schema.items ?? {}, chance, field));
    case 'integer':
    case 'number': {
      const [min, max] = [schema.minimum ?? 0, schema.maximum ?? 1_000];
      // Waits take real time here, so they are short, or refused.
      return field === 'waitMs' ? chance.pick([0, 1, 20]) : chance.between(min, Math.min(max, min + 5_000));
    }
    case 'boolean':
      return chance.happens(0.5);
    case 'string':
      return schema.pattern?.includes('{16,128}') ? `fuzz-${chance.between(10_000, 99_999)}-lease-id` : nameOf(chance);
    default:
      return chance.pick<unknown>([1, 'a', null, { a: [1] }]);
  }
}

const nameOf = (chance: Chance): string => chance.pick(['a', 'b', 'lock:1', 'x.y_z', `n${chance.between(0, 40)}`]);

/** Changes one thing in a value: drops it, replaces it, or adds to it. */
function bend(value: unknown, chance: Chance): unknown {
  if (typeof value !== 'object' || value === null || chance.happens(0.15)) return oddValue(chance);
  if (Array.isArray(value)) return value.map((each) => (chance.happens(0.4) ? bend(each, chance) : each));
  const entries = Object.entries(value as Record<string, unknown>);
  if (entries.length === 0 || chance.happens(0.3)) return { ...value, [chance.pick(oddStrings)]: oddValue(chance) };
  const [name, inner] = chance.pick(entries);
  return { ...value, [name]: bend(inner, chance) };
}

/** JSON text that `JSON.stringify` would never write. */
const oddTexts = (text: string, chance: Chance): string =>
  chance.pick([
    () => text.slice(0, Math.floor(text.length / 2)),
    () => `${text}${text}`,
    () => `\ufeff${text}`,
    () => text.replace('{', '{"__proto__":{"admin":true},'),
    () => text.replace('{', '{"constructor":{"prototype":{"x":1}},'),
    () => text.replace(/"(\w+)":/, '"$1":1,"$1":'),
    () => '['.repeat(chance.pick([100, 20_000])),
    () => '{"a":'.repeat(5_000),
    () => `"${'\\ud800'.repeat(10)}"`,
    () => '1e400',
    () => ' '.repeat(70_000),
    () => `{"leaseId":"${'a'.repeat(70_000)}"}`,
  ])();

export function nextRequest(chance: Chance): FuzzRequest {
  return chance.happens(0.08) ? rawRequest(chance) : httpRequest(chance);
}

function httpRequest(chance: Chance): FuzzRequest {
  const operation = chance.pick(operations);
  const headers: Record<string, string> = {};
  const query = new URLSearchParams();
  let { path } = operation;
  for (const { name, in: place, schema } of operation.parameters) {
    const value = String(chance.happens(0.3) ? chance.pick(oddStrings) : fitting(schema ?? {}, chance, name));
    if (place === 'path') path = path.replace(`{${name}}`, () => pathPart(name, value, chance));
    else if (place === 'query' && chance.happens(0.6)) query.set(name, value);
    else if (place === 'header' && chance.happens(0.6)) headers[name.toLowerCase()] = headerValue(value);
  }
  if (chance.happens(0.1))
    query.append(chance.pick(['__proto__', 'x', 'limit', 'limit', 'cursor']), chance.pick(['', '-1', 'é', 'e30']));
  const method = chance.happens(0.05) ? chance.pick(['PATCH', 'OPTIONS', 'HEAD', 'DELETE', 'PUT']) : operation.method;
  const search = query.size === 0 ? '' : `?${query}`;
  const body = operation.body === undefined && chance.happens(0.9) ? undefined : bodyOf(operation.body ?? {}, chance);
  if (body !== undefined) headers['content-type'] = contentType(chance);
  if (chance.happens(0.02)) headers['content-encoding'] = 'gzip';
  return { kind: 'http', method, path: `${path}${search}`, headers, body };
}

const contentType = (chance: Chance): string =>
  chance.happens(0.9)
    ? 'application/json'
    : chance.pick([
        'application/json; charset=utf-16',
        'text/plain',
        'application/x-www-form-urlencoded',
        'APPLICATION/JSON',
        ';',
      ]);

function pathPart(name: string, value: string, chance: Chance): string {
  // Requests may look at everything in the victim's namespace, but must not see its secrets.
  if (name === 'ns') return chance.happens(0.3) ? 'victim' : chance.happens(0.8) ? 'fuzz' : encode(value);
  return chance.happens(0.2) ? encode(chance.pick(oddStrings)) : encode(value);
}

/** Percent-encoded, except a lone surrogate, which can't be encoded. */
const encode = (value: string): string => {
  const whole = value.toWellFormed();
  return whole.startsWith('%') ? whole.replace(/[^%\w]/g, '') : encodeURIComponent(whole);
};

/** Node refuses to send control characters. Raw requests have those. */
const headerValue = (value: string): string => value.replace(/[^\x20-\x7e]/g, '?').slice(0, 2_000);

function bodyOf(schema: Schema, chance: Chance): Buffer {
  const value = fitting(schema, chance);
  const bent = chance.happens(0.6) ? bend(value, chance) : value;
  const text = JSON.stringify(bent) ?? '';
  if (chance.happens(0.75)) return Buffer.from(text);
  if (chance.happens(0.7)) return Buffer.from(oddTexts(text, chance));
  const bytes = Buffer.from(text);
  for (let flips = chance.between(1, 8); flips > 0 && bytes.length > 0; flips--)
    bytes[chance.between(0, bytes.length - 1)] = chance.between(0, 255);
  return bytes;
}

function rawRequest(chance: Chance): FuzzRequest {
  const line = chance.pick([
    'GET /v1/health HTTP/1.1',
    'POST /v1/fuzz/locks/a/acquire HTTP/1.1',
    'POST /v1/fuzz/locks/a/acquire HTTP/9.9',
    'GET http://127.0.0.1/v1/health HTTP/1.1',
    'GET //v1//health HTTP/1.1',
    'GET /v1/fuzz/locks/\xff\xfe HTTP/1.1',
    'GET /v1/watch?namespace=fuzz HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade',
    'CONNECT 127.0.0.1:1 HTTP/1.1',
    `GET /${'a'.repeat(20_000)} HTTP/1.1`,
    `G${'E'.repeat(chance.between(0, 50))}T / HTTP/1.1`,
  ]);
  const headers = [
    'Host: 127.0.0.1',
    'Connection: close',
    chance.pick([
      '',
      'Content-Length: -1',
      'Content-Length: 99999999999',
      'Content-Length: 5\r\nContent-Length: 6',
      'Content-Length: 4',
    ]),
    chance.pick(['', 'Transfer-Encoding: chunked', 'Transfer-Encoding: gzip, chunked', 'Transfer-Encoding: xchunked']),
    chance.pick([
      '',
      `X: ${'y'.repeat(20_000)}`,
      'X\0: y',
      ' folded: y',
      'Content-Type: application/json',
      'Expect: 100-continue',
    ]),
    chance.pick(['', 'Sec-WebSocket-Key: short', 'Sec-WebSocket-Version: 99']),
  ].filter((header) => header !== '');
  const body = chance.pick(['', '{}', 'zz\r\n{}', 'FFFFFFFFFFFFFFFF\r\n', '0\r\n\r\n', '\0\0\0\0']);
  const bytes = Buffer.from(`${line}\r\n${headers.join('\r\n')}\r\n\r\n${body}`, 'latin1');
  for (let flips = chance.pick([0, 0, 1, 20]); flips > 0; flips--)
    bytes[chance.between(0, bytes.length - 1)] = chance.between(0, 255);
  return { kind: 'raw', bytes: chance.happens(0.1) ? bytes.subarray(0, chance.between(1, bytes.length)) : bytes };
}
