/** Every operation once. All other descriptions of an operation are derived from here. */
import * as z from 'zod';
import { lostReasons } from '../lock/commands.ts';
import { fence, ms } from './fields.ts';
import { holderView, lockOperations } from './locks.ts';
import { multiLockOperations } from './multi-locks.ts';
import type { Access, Method, OperationContract } from './operation.ts';
import { problemTypes } from './problems.ts';
import { recordOperations } from './records.ts';
import { sessionOperations } from './sessions.ts';
import { ticketOperations } from './tickets.ts';

export type { Access, OperationContract } from './operation.ts';

const serviceOperations = {
  health: {
    route: 'GET /v1/health',
    access: 'public',
    summary: 'Says whether the service can read its store.',
    answers: {
      200: z.object({ status: z.literal('ok'), version: z.string(), engine: z.string() }).meta({ title: 'Health' }),
    },
  },
  openapi: {
    route: 'GET /v1/openapi.json',
    access: 'public',
    summary: 'This document.',
    answers: { 200: z.looseObject({}) },
  },
} as const satisfies Record<string, OperationContract>;

export const operations = {
  ...serviceOperations,
  ...lockOperations,
  ...multiLockOperations,
  ...sessionOperations,
  ...recordOperations,
  ...ticketOperations,
};

export type Contract = typeof operations;
export type Operation = keyof Contract;

/** An operation's method and path, and the right that it needs, for the router and the stack, which need no schemas. */
export interface Route {
  readonly operation: Operation;
  readonly method: Method;
  readonly path: string;
  readonly access: Access;
}

export const routes: readonly Route[] = Object.entries(operations).map(([operation, { route, access }]) => {
  const [method, path] = route.split(' ') as [Method, string];
  return { operation: operation as Operation, method, path, access };
});

/** The names in the braces of a route. */
export type ParametersOf<Route extends string> = Route extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParametersOf<Rest>
  : never;

type SchemaOf<Name extends Operation, Part extends 'body' | 'query' | 'headers'> = Contract[Name] extends {
  readonly [Key in Part]: infer Schema extends z.ZodType;
}
  ? Schema
  : undefined;

/** One part of a request as the caller sends it. */
export type Sent<Name extends Operation, Part extends 'body' | 'query' | 'headers'> =
  SchemaOf<Name, Part> extends z.ZodType ? z.input<SchemaOf<Name, Part>> : undefined;

/** The same part as the operation gets it, after the check. */
export type Checked<Name extends Operation, Part extends 'body' | 'query' | 'headers'> =
  SchemaOf<Name, Part> extends z.ZodType
    ? Part extends 'body'
      ? Contract[Name] extends { readonly verbatim: true }
        ? string
        : z.output<SchemaOf<Name, Part>>
      : z.output<SchemaOf<Name, Part>>
    : undefined;

export const problem = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: z.enum(Object.keys(problemTypes) as [string, ...string[]]),
    errors: z.array(z.object({ field: z.string(), message: z.string() })).optional(),
    holders: z.array(holderView).optional(),
    queueDepth: z.int().optional(),
    blockedBy: z.array(z.string()).optional(),
    retryAfterMs: ms.optional(),
    waitedMs: ms.optional(),
    reason: z.enum(lostReasons).optional(),
    revokedBy: z.string().optional(),
    revokedReason: z.string().optional(),
    limit: z.int().optional(),
    cycle: z.array(z.object({ sessionId: z.string(), owner: z.string(), waitsFor: z.string() })).optional(),
    version: z.int().nullable().optional(),
    fenceFloor: fence.optional(),
  })
  .describe('RFC 9457, with a code and the fields of that code.')
  .meta({ title: 'Problem' });
