/** The shapes of requests and answers, as callers know them. Like published.test.ts, this list does not follow a slip. */
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { type OperationContract, operations, problem } from '../../../src/contract/operations.ts';

interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | false;
  readonly required?: readonly string[];
  readonly minimum?: number;
  readonly format?: string;
  readonly default?: unknown;
}

/** A schema in few words: `?` marks what may be missing, `=` a default. */
function spell(schema: Schema): string {
  const { type, anyOf, oneOf, items, properties, additionalProperties, required = [], minimum, format } = schema;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.join('|');
  const choices = anyOf ?? oneOf;
  if (choices !== undefined) return choices.map(spell).join(' or ');
  if (items !== undefined) return `[${spell(items)}]`;
  if (properties !== undefined) {
    const fields = Object.entries(properties).map(([name, field]) => {
      const byDefault = field.default === undefined ? '' : `=${field.default}`;
      return `${name}${required.includes(name) ? '' : '?'}: ${spell(field)}${byDefault}`;
    });
    return `{ ${[...fields, ...(typeof additionalProperties === 'object' ? ['…'] : [])].join(', ')} }`;
  }
  if (typeof additionalProperties === 'object') return `{ any: ${spell(additionalProperties)} }`;
  return format ?? `${type ?? 'any'}${type === 'integer' && (minimum ?? -1) >= 0 ? ` from ${minimum}` : ''}`;
}

const shapeOf = (schema: z.ZodType | undefined, io: 'input' | 'output' = 'output'): string | undefined =>
  schema === undefined ? undefined : spell(z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Schema);

/** What several answers share. */
const holder = '{ owner: string, fence: integer from 0, remainingMs: integer from 0 or null }';
const holderDetail =
  '{ owner: string, fence: integer from 0, remainingMs: integer from 0 or null, permits: integer, ' +
  'acquiredAt: date-time, sessionId?: string, metadata?: { any: string } }';
const granted =
  '{ status: "granted", lock: string, leaseId: string, fence: integer from 0, limit: integer, permits: integer, ' +
  'leaseMs?: integer from 0, remainingMs: integer from 0 or null, expiresAt: date-time or null, ' +
  'waitedMs: integer from 0, mode?: exclusive|shared, sessionId?: string, metadata?: { any: string } }';
const grantedMany =
  '{ status: "granted", leaseId: string, remainingMs: integer from 0 or null, expiresAt: date-time or null, ' +
  'waitedMs: integer from 0, grants: [{ lock: string, fence: integer }] }';
const waiting =
  `position: integer from 1, queueDepth: integer, holders: [${holder}], etaMs: integer from 0 or null, ` +
  'waitRemainingMs: integer from 0, retryAfterMs: integer from 0, place?: integer';
const session = 'sessionId: string, ttlMs: integer from 0, remainingMs: integer from 0, expiresAt: date-time';
const record =
  'key: string, version: integer from 1, fence: integer from 1 or null, updatedAt: date-time, ' +
  'expiresAt?: date-time, remainingMs?: integer from 0';

const shapes: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  health: { 200: '{ status: "ok", version: string, engine: string }' },
  openapi: { 200: '{ … }' },
  listLocks: {
    query: '{ prefix?: string=, state?: held|free, limit?: integer from 1, cursor?: string }',
    200:
      `{ locks: [{ lock: string, state: free|held, fence: integer from 0, limit: integer, holders: [${holderDetail}], ` +
      'queueDepth: integer, longestWaitMs: integer from 0 }], cursor?: string }',
  },
  inspectLock: {
    200:
      `{ lock: string, state: free|held, fence: integer from 0, limit: integer, holders: [${holderDetail}], ` +
      'queue: [{ owner: string, position: integer, waitingMs: integer from 0, permits: integer, sessionId?: string }], ' +
      'queueDepth: integer }',
  },
  checkFence: {
    query: '{ fence: integer from 0 }',
    200: '{ valid: boolean, fence: integer from 0, state: free|held }',
  },
  lockHistory: {
    query: '{ limit?: integer from 1, cursor?: string }',
    200:
      '{ events: [{ at: date-time, ' +
      'type: queued|granted|released|expired|revoked|session-lost|wait-cancelled|wait-timeout, ' +
      'fence: integer from 0, owner: string, heldMs?: integer from 0, waitedMs?: integer from 0, reason?: string, ' +
      'by?: string }], cursor?: string }',
  },
  acquireLock: {
    body:
      '{ leaseMs?: integer from 1000, waitMs?: integer from 0=0, pollMs?: integer from 0, leaseId?: string, ' +
      'owner?: string, limit?: integer from 1, permits?: integer from 1, mode?: exclusive|shared, sessionId?: string, ' +
      'lockDelayMs?: integer from 0=0, tier?: correctness|efficiency=correctness, ' +
      'notify?: { type: "event", ref: string } or { type: "task-token", token: string, always?: boolean } ' +
      'or { type: "durable-callback", id: string, always?: boolean } or { type: "websocket", connectionId: string }, ' +
      'metadata?: { any: string }, place?: "new" or integer from 1 }',
    200: granted,
    202: `{ status: "waiting", lock: string, leaseId: string, ${waiting} }`,
  },
  renewLock: { body: '{ leaseId: string, leaseMs?: integer from 1000 }', 200: granted },
  releaseLock: {
    body: '{ leaseId: string }',
    200: '{ released: boolean, reason: ok|cancelled|already_released, expired?: true }',
  },
  revokeLock: { body: '{ fence: integer from 1, reason: string, by?: string }', 200: '{ revoked: true }' },
  acquireLocks: {
    body:
      '{ locks: [string or { name: string, limit?: integer from 1, permits?: integer from 1, mode?: exclusive|shared }], ' +
      'leaseMs?: integer from 1000, waitMs?: integer from 0=0, leaseId?: string, owner?: string, sessionId?: string }',
    200: grantedMany,
    202: `{ status: "waiting", leaseId: string, ${waiting}, blockedBy: [string] }`,
  },
  renewLocks: { body: '{ leaseId: string, locks: [string], leaseMs?: integer from 1000 }', 200: grantedMany },
  releaseLocks: {
    body: '{ leaseId: string, locks: [string] }',
    200: '{ released: [string], failed: [{ lock: string, reason: string }], expired?: [string] }',
  },
  createSession: { body: '{ ttlMs?: integer from 1000=30000, owner?: string }', 201: `{ ${session} }` },
  getSession: { 200: `{ ${session}, owner: string, locks: [{ lock: string, fence: integer }] }` },
  endSession: { 200: '{ ended: boolean, released?: integer }' },
  keepSessionAlive: { body: '{  }', 200: `{ ${session} }` },
  getRecord: { headers: '{ If-None-Match?: string }', 200: `{ ${record}, value: any }` },
  putRecord: {
    headers: '{ If-Match?: string, Fence-Token?: integer from 1, Write-Id?: string, If-None-Match?: "*" }',
    body: '{ value: any, expiresInMs?: integer from 1000 }',
    200: `{ ${record} }`,
    201: `{ ${record} }`,
  },
  deleteRecord: {
    headers: '{ If-Match?: string, Fence-Token?: integer from 1, Write-Id?: string, If-None-Match?: any }',
    200: `{ ${record} }`,
  },
  createTicket: { body: '{  }', 201: '{ ticket: string, url: string, expiresInMs: integer from 0 }' },
};

describe('the contract', () => {
  it('has these shapes of requests and answers', () => {
    const published = Object.entries<OperationContract>(operations).map(([name, operation]) => {
      const parts = (['query', 'headers', 'body'] as const).map((part) => [part, shapeOf(operation[part], 'input')]);
      const answers = Object.entries(operation.answers).map(([status, answer]) => [status, shapeOf(answer)]);
      return [name, Object.fromEntries([...parts, ...answers].filter(([, shape]) => shape !== undefined))];
    });
    expect(Object.fromEntries(published)).toEqual(shapes);
  });

  it('has one shape of problems, with the fields of each code', () => {
    const spelled = shapeOf(problem)?.replace(/code: [\w|-]+/, 'code: any of them');
    expect(spelled).toBe(
      '{ type: string, title: string, status: integer, detail: string, instance: string, code: any of them, ' +
        `errors?: [{ field: string, message: string }], holders?: [${holder}], queueDepth?: integer, ` +
        'blockedBy?: [string], retryAfterMs?: integer from 0, waitedMs?: integer from 0, ' +
        'reason?: expired|released|revoked|not_owner|session_lost, revokedBy?: string, revokedReason?: string, limit?: integer, ' +
        'cycle?: [{ sessionId: string, owner: string, waitsFor: string }], version?: integer or null, ' +
        'fenceFloor?: integer from 0, … }',
    );
  });
});
