import type * as z from 'zod';
import { namespaceName, resourceName } from '../contract/fields.ts';
import {
  type Operation,
  type OperationContract,
  operations,
  problem,
  type Route,
  routes,
} from '../contract/operations.ts';
import { bodyProblems, commonProblems, type ProblemCode, problemTypes } from '../contract/problems.ts';
import { Components, type Json, jsonSchema, nameOf } from './json-schema.ts';

const content = (type: string, schema: Json): Json => ({ content: { [type]: { schema } } });

const header = (name: string): Json => ({ $ref: `#/components/headers/${name}` });

/** Headers of answers, by their names in `components`. */
const headers: Readonly<Record<string, Json>> = {
  RequestId: {
    description: "Finds the request in the service's log.",
    schema: { type: 'string' },
  },
  RetryAfter: {
    description: 'Seconds, rounded up. The body has `retryAfterMs`.',
    // A day, the longest lease, fits.
    schema: { type: 'integer', format: 'int32', minimum: 0, maximum: 86_400 },
  },
  ETag: {
    description: 'The version of the record in quotation marks, for If-Match.',
    schema: { type: 'string', example: '"7"' },
  },
};

/** A deployed service takes one of the first two. A service on loopback takes requests without either. */
const securitySchemes: Json = {
  sigv4: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description: 'AWS Signature Version 4 for the service execute-api. The default of a deployed service.',
    'x-amazon-apigateway-authtype': 'awsSigv4',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'A JSON Web Token, if the deployment takes tokens. Locally the value of HOLDFAST_TOKEN, if it is set.',
  },
};

const servers: readonly Json[] = [
  { url: 'http://127.0.0.1:4100', description: 'On this machine: npx holdfast serve' },
  {
    url: 'https://{api}.execute-api.{region}.amazonaws.com',
    description: 'Deployed. The stack prints the address as its output Url.',
    variables: { api: { default: 'abc123' }, region: { default: 'eu-west-1' } },
  },
];

/** The groups of operations, by the first word of their paths after the namespace. */
const tags: Readonly<Record<string, string>> = {
  locks: 'One lock: mutex, semaphore or read-write lock.',
  'multi-locks': 'Several locks, all or none.',
  sessions: 'One keepalive for many locks.',
  records: 'Values with compare-and-swap, which refuse a fence that is too low.',
  tickets: 'WebSocket connections.',
  service: 'The service itself.',
};

const tagOf = (path: string): string => /^\/v1\/\{ns\}\/([a-z-]+)/.exec(path)?.[1] ?? 'service';

/** What to call next with the secret of an answer: the operations that take it, by the field that has it. */
const nextCalls: Readonly<
  Partial<Record<Operation, { readonly secret: string; readonly calls: readonly Operation[] }>>
> = {
  acquireLock: { secret: 'leaseId', calls: ['renewLock', 'releaseLock'] },
  acquireLocks: { secret: 'leaseId', calls: ['renewLocks', 'releaseLocks'] },
  createSession: { secret: 'sessionId', calls: ['keepSessionAlive', 'getSession', 'endSession'] },
};

const parametersOf = (route: string): string[] => [...route.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '');

function linksOf(operation: Operation): Json {
  const { secret, calls } = nextCalls[operation] ?? { secret: '', calls: [] };
  if (calls.length === 0) return {};
  const own = parametersOf(operations[operation].route);
  const value = `$response.body#/${secret}`;
  const links = calls.map((call) => {
    const named = parametersOf(operations[call].route);
    const parameters = Object.fromEntries(
      named.map((name) => [name, own.includes(name) ? `$request.path.${name}` : value]),
    );
    const isInPath = named.some((name) => !own.includes(name));
    return [call, { operationId: call, parameters, ...(isInPath ? {} : { requestBody: { [secret]: value } }) }];
  });
  return { links: Object.fromEntries(links) };
}

/** A parameter that must not be given is not described. */
const isForbidden = (schema: z.ZodType): boolean =>
  (schema as { def?: { innerType?: z.ZodType } }).def?.innerType?.def.type === 'never';

/** The description stands beside the parameter, where every tool looks for it. */
function parameter(name: string, where: string, required: boolean, schema: Json): Json {
  const { description, ...rest } = schema;
  return { name, in: where, required, ...(description === undefined ? {} : { description }), schema: rest };
}

const parametersIn = (where: 'query' | 'header', schema: z.ZodObject | undefined, components: Components): Json[] =>
  Object.entries((schema?.shape ?? {}) as Record<string, z.ZodType>)
    .filter(([, field]) => !isForbidden(field))
    .map(([name, field]) =>
      parameter(name, where, !field.safeParse(undefined).success, jsonSchema(field, 'input', components)),
    );

const pathParameters = (route: string, components: Components): Json[] =>
  parametersOf(route).map((name) =>
    parameter(name, 'path', true, jsonSchema(name === 'ns' ? namespaceName : resourceName, 'input', components)),
  );

/** Every problem code that an operation may answer: its own, those of its body, and those that all operations share. */
export const problemsOf = ({ problems = [], body }: OperationContract): readonly ProblemCode[] => [
  ...problems,
  ...(body === undefined ? [] : bodyProblems),
  ...commonProblems,
];

const problemContent = content('application/problem+json', { $ref: '#/components/schemas/Problem' });

/**
 * The refusals by status, each with its possible codes. All have the same schema by reference: a schema for each status
 * and operation would make seven times as much generated code.
 */
function problemResponses(contract: OperationContract): Json {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of problemsOf(contract)) {
    const { status } = problemTypes[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const isRepeatable = (status: number) => [409, 429, 503].includes(status);
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: codes.map((code) => `\`${code}\`: ${problemTypes[code].title}.`).join(' '),
        'x-codes': codes,
        headers: {
          'x-request-id': header('RequestId'),
          ...(isRepeatable(status) ? { 'Retry-After': header('RetryAfter') } : {}),
        },
        ...problemContent,
      },
    ]),
  );
}

const descriptionOf: Readonly<Record<string, string>> = {
  200: 'Success.',
  201: 'Created.',
  202: 'Still waiting. Repeat the same request with the same leaseId to go on waiting in the same place.',
};

function describeOperation({ operation, path }: Route, components: Components): Json {
  const contract: OperationContract = operations[operation];
  const { route, access, summary, body, query, headers: sent, answers, bareAnswers = {} } = contract;
  const [title = summary] = summary.split(/(?<=\.) /);
  const answerHeaders = (status: string) => ({
    'x-request-id': header('RequestId'),
    ...(status === '202' ? { 'Retry-After': header('RetryAfter') } : {}),
    ...(tagOf(path) === 'records' ? { ETag: header('ETag') } : {}),
  });
  return {
    operationId: operation,
    tags: [tagOf(path)],
    summary: title.replace(/\.$/, ''),
    description: summary,
    'x-access': access,
    parameters: [
      ...pathParameters(route, components),
      ...parametersIn('query', query, components),
      ...parametersIn('header', sent, components),
    ],
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            ...content(
              'application/json',
              components.refer(nameOf(`${operation}-request`), jsonSchema(body, 'input', components)),
            ),
          },
        }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, schema]) => [
          status,
          {
            description: descriptionOf[status],
            headers: answerHeaders(status),
            ...content('application/json', jsonSchema(schema, 'output', components)),
            ...(status === '202' ? {} : linksOf(operation)),
          },
        ]),
      ),
      ...Object.fromEntries(
        Object.entries(bareAnswers).map(([status, description]) => [
          status,
          { description, headers: answerHeaders(status) },
        ]),
      ),
      ...problemResponses(contract),
      // A proxy or another program between caller and service may answer in its own format.
      default: { description: 'A problem.', ...problemContent },
    },
  };
}

let built: { version: string; document: Json } | undefined;

/**
 * The contract as OpenAPI 3.1, made from the schemas that check requests. Built once, because it is the same for every
 * caller.
 */
export function openApiDocument(version: string): Json {
  if (built?.version === version) return built.document;
  const components = new Components();
  jsonSchema(problem, 'output', components);
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const { method, path } = route;
    paths[path] = { ...paths[path], [method.toLowerCase()]: describeOperation(route, components) };
  }
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Holdfast',
      version,
      summary: 'A distributed lock service with leases, fences, FIFO waiting and compare-and-swap records.',
      description:
        'Durations are integers of milliseconds. Instants are ISO 8601 in UTC. Every request is safe to repeat: choose the `leaseId` yourself and send the same one again. Refusals are problems (RFC 9457) with a `code`.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers,
    security: [{ sigv4: [] }, { bearer: [] }, {}],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: { schemas: components.schemas, headers, securitySchemes },
    'x-problem-codes': problemTypes,
  };
  built = { version, document };
  return document;
}
