import * as z from 'zod';
import { historyQuery } from './history.ts';
import {
  acquireManyBody,
  grantedMany,
  releasedMany,
  releaseManyBody,
  renewManyBody,
  waitingMany,
} from './multi-schemas.ts';
import { problemTypes } from './problems.ts';
import {
  deleteRecordHeaders,
  getRecordHeaders,
  putRecordBody,
  putRecordHeaders,
  recordShown,
  recordWritten,
} from './record-schemas.ts';
import * as responses from './responses.ts';
import { type Operation, type Route, routes } from './routes.ts';
import {
  acquireBody,
  checkQuery,
  listQuery,
  namespaceName,
  releaseBody,
  renewBody,
  resourceName,
  revokeBody,
} from './schemas.ts';
import { createSessionBody, endedSession, inspectedSession, nothingBody, openSession } from './session-schemas.ts';

interface Description {
  readonly summary: string;
  readonly body?: z.ZodType;
  readonly query?: z.ZodObject;
  readonly headers?: z.ZodObject;
  /** By status; what is missing here is a problem. */
  readonly answers: Readonly<Record<number, z.ZodType>>;
  /** Answers without a body, by status, each with its meaning. */
  readonly bareAnswers?: Readonly<Record<number, string>>;
}

/** Each operation with the very schemas that check its requests. */
const descriptions: Record<Operation, Description> = {
  health: { summary: 'Whether the service can read its store.', answers: { 200: responses.health } },
  openapi: { summary: 'This document.', answers: { 200: z.looseObject({}) } },
  listLocks: {
    summary: 'Lists locks by name, complete over pages.',
    query: listQuery,
    answers: { 200: responses.listed },
  },
  inspectLock: { summary: 'Shows a lock, its holders and who waits for it.', answers: { 200: responses.inspected } },
  checkFence: {
    summary:
      'Whether a fence holds now. The answer may be stale when it arrives: what the lock protects must check the fence itself.',
    query: checkQuery,
    answers: { 200: responses.checked },
  },
  lockHistory: {
    summary: 'What happened to a lock in the last seven days, newest first.',
    query: historyQuery,
    answers: { 200: responses.history },
  },
  acquireLock: {
    summary:
      'Takes a lock, or waits for it. Repeat the same request, with the same leaseId, to go on waiting or after a lost answer.',
    body: acquireBody,
    answers: { 200: responses.granted, 202: responses.waiting },
  },
  renewLock: { summary: 'Extends a lease that is in force.', body: renewBody, answers: { 200: responses.granted } },
  releaseLock: {
    summary: 'Gives back a lease, or a place in the queue.',
    body: releaseBody,
    answers: { 200: responses.released },
  },
  revokeLock: {
    summary: "Ends somebody else's lease by its fence.",
    body: revokeBody,
    answers: { 200: responses.revoked },
  },
  acquireLocks: {
    summary: 'Takes several locks, all or nothing, each with its own fence.',
    body: acquireManyBody,
    answers: { 200: grantedMany, 202: waitingMany },
  },
  renewLocks: {
    summary: 'Extends several leases, all or nothing.',
    body: renewManyBody,
    answers: { 200: grantedMany },
  },
  releaseLocks: {
    summary: 'Gives back several leases, each for itself.',
    body: releaseManyBody,
    answers: { 200: releasedMany },
  },
  createSession: {
    summary: 'Opens a session. Locks taken under it live as long as it does.',
    body: createSessionBody,
    answers: { 201: openSession },
  },
  getSession: { summary: 'Shows a session and the locks that it holds.', answers: { 200: inspectedSession } },
  endSession: { summary: 'Ends a session: all its locks are void in that one write.', answers: { 200: endedSession } },
  keepSessionAlive: {
    summary: 'Keeps a session, and with it all its locks, alive.',
    body: nothingBody,
    answers: { 200: openSession },
  },
  getRecord: {
    summary: 'Reads a record. Its version is also in ETag.',
    headers: getRecordHeaders,
    answers: { 200: recordShown },
    bareAnswers: { 304: 'The record still has a version that If-None-Match names.' },
  },
  putRecord: {
    summary:
      'Creates or replaces a record, by compare-and-swap: If-Match or If-None-Match is required, and Fence-Token once the record has a floor.',
    headers: putRecordHeaders,
    body: putRecordBody,
    answers: { 200: recordWritten, 201: recordWritten },
  },
  deleteRecord: {
    summary: 'Deletes a record, by compare-and-swap. Version and floor go on where it is created again.',
    headers: deleteRecordHeaders,
    answers: { 200: recordWritten },
  },
};

type Json = Record<string, unknown>;

const jsonSchema = (schema: z.ZodType, io: 'input' | 'output'): Json => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    unrepresentable: 'any',
  }) as Json;
  return rest;
};

const content = (type: string, schema: Json): Json => ({ content: { [type]: { schema } } });

const parametersIn = (where: 'query' | 'header', schema: z.ZodObject | undefined): Json[] =>
  Object.entries(schema?.shape ?? {}).map(([name, field]) => {
    const described = jsonSchema(field as z.ZodType, 'input');
    return { name, in: where, required: !(field as z.ZodType).safeParse(undefined).success, schema: described };
  });

const pathParameters = (path: string): Json[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: jsonSchema(name === 'ns' ? namespaceName : resourceName, 'input'),
  }));

function describeOperation(route: Route): Json {
  const { summary, body, query, headers, answers, bareAnswers = {} } = descriptions[route.operation as Operation];
  return {
    operationId: route.operation,
    summary,
    'x-access': route.access,
    parameters: [...pathParameters(route.path), ...parametersIn('query', query), ...parametersIn('header', headers)],
    ...(body === undefined ? {} : { requestBody: content('application/json', jsonSchema(body, 'input')) }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, schema]) => [
          status,
          { description: 'Success.', ...content('application/json', jsonSchema(schema, 'output')) },
        ]),
      ),
      ...Object.fromEntries(Object.entries(bareAnswers).map(([status, description]) => [status, { description }])),
      default: {
        description: 'A problem.',
        ...content('application/problem+json', { $ref: '#/components/schemas/Problem' }),
      },
    },
  };
}

let built: { version: string; document: Json } | undefined;

/** The contract, generated from the schemas that check requests. Built once: it is the same for every caller. */
export function openApiDocument(version: string): Json {
  if (built?.version === version) return built.document;
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const methods = paths[route.path] ?? {};
    methods[route.method.toLowerCase()] = describeOperation(route);
    paths[route.path] = methods;
  }
  const document = {
    openapi: '3.1.0',
    info: { title: 'Holdfast', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    paths,
    components: {
      schemas: {
        Problem: jsonSchema(responses.problem, 'output'),
      },
    },
    'x-problem-codes': problemTypes,
  };
  built = { version, document };
  return document;
}
