import * as z from 'zod';
import { namespaceName, resourceName } from '../contract/fields.ts';
import { type Operation, type OperationContract, operations, problem, routes } from '../contract/operations.ts';
import { bodyProblems, commonProblems, type ProblemCode, problemTypes } from '../contract/problems.ts';

type Json = Record<string, unknown>;

const jsonSchema = (schema: z.ZodType, io: 'input' | 'output'): Json => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Json;
  return rest;
};

const content = (type: string, schema: Json): Json => ({ content: { [type]: { schema } } });

const parametersIn = (where: 'query' | 'header', schema: z.ZodObject | undefined): Json[] =>
  Object.entries(schema?.shape ?? {}).map(([name, field]) => {
    const described = jsonSchema(field as z.ZodType, 'input');
    return { name, in: where, required: !(field as z.ZodType).safeParse(undefined).success, schema: described };
  });

const pathParameters = (route: string): Json[] =>
  [...route.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: jsonSchema(name === 'ns' ? namespaceName : resourceName, 'input'),
  }));

/** Every problem code that an operation may answer: its own, those of its body, and those that all operations share. */
export const problemsOf = ({ problems = [], body }: OperationContract): readonly ProblemCode[] => [
  ...problems,
  ...(body === undefined ? [] : bodyProblems),
  ...commonProblems,
];

/** The refusals by status, each with its possible codes. */
function problemResponses(contract: OperationContract): Json {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of problemsOf(contract)) {
    const { status } = problemTypes[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: codes.map((code) => `\`${code}\`: ${problemTypes[code].title}.`).join(' '),
        ...content('application/problem+json', {
          allOf: [{ $ref: '#/components/schemas/Problem' }, { properties: { code: { enum: codes } } }],
        }),
      },
    ]),
  );
}

function describeOperation(operationId: Operation): Json {
  const contract: OperationContract = operations[operationId];
  const { route, access, summary, body, query, headers, answers, bareAnswers = {} } = contract;
  return {
    operationId,
    summary,
    'x-access': access,
    parameters: [...pathParameters(route), ...parametersIn('query', query), ...parametersIn('header', headers)],
    ...(body === undefined ? {} : { requestBody: content('application/json', jsonSchema(body, 'input')) }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, schema]) => [
          status,
          { description: 'Success.', ...content('application/json', jsonSchema(schema, 'output')) },
        ]),
      ),
      ...Object.fromEntries(Object.entries(bareAnswers).map(([status, description]) => [status, { description }])),
      ...problemResponses(contract),
      // A proxy or another program between caller and service may answer in its own format.
      default: {
        description: 'A problem.',
        ...content('application/problem+json', { $ref: '#/components/schemas/Problem' }),
      },
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
  const paths: Record<string, Json> = {};
  for (const { operation, method, path } of routes)
    paths[path] = { ...paths[path], [method.toLowerCase()]: describeOperation(operation) };
  const document = {
    openapi: '3.1.0',
    info: { title: 'Holdfast', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    paths,
    components: { schemas: { Problem: jsonSchema(problem, 'output') } },
    'x-problem-codes': problemTypes,
  };
  built = { version, document };
  return document;
}
