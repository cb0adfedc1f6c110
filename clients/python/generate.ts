/**
 * Writes `contract.py`: what the Python client knows of the service's contract, from the OpenAPI document. A test fails
 * if the file and the document differ.
 *
 *     npm run clients:python
 */
import { writeFileSync } from 'node:fs';
import { lockLimits } from '../../src/contract/limits.ts';
import { openApiDocument } from '../../src/http/openapi.ts';

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly additionalProperties?: Schema | boolean;
  readonly enum?: readonly string[];
  readonly const?: unknown;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

interface Described {
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly schema: Schema }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
  readonly 'x-problem-codes': Readonly<Record<string, { readonly status: number }>>;
}

/** The answers that Python users see, and where each stands in the document: operation, status, and the way to it. */
const answers: readonly (readonly [name: string, operation: string, status: number, ...path: string[]])[] = [
  ['HolderView', 'acquireLock', 202, 'holders'],
  ['HolderDetail', 'inspectLock', 200, 'holders'],
  ['WaiterView', 'inspectLock', 200, 'queue'],
  ['LockFence', 'acquireLocks', 200, 'grants'],
  ['ReleaseFailure', 'releaseLocks', 200, 'failed'],
  ['LockView', 'inspectLock', 200],
  ['LockSummary', 'listLocks', 200, 'locks'],
  ['LockEvent', 'lockHistory', 200, 'events'],
  ['FenceCheck', 'checkFence', 200],
  ['Grant', 'acquireLock', 200],
  ['ManyGrant', 'acquireLocks', 200],
  ['Waiting', 'acquireLock', 202],
  ['ManyWaiting', 'acquireLocks', 202],
  ['Released', 'releaseLock', 200],
  ['ManyReleased', 'releaseLocks', 200],
  ['OpenSession', 'createSession', 201],
  ['SessionView', 'getSession', 200],
  ['SessionEnd', 'endSession', 200],
  ['RecordWritten', 'putRecord', 200],
  ['RecordView', 'getRecord', 200],
  ['Ticket', 'createTicket', 201],
  ['Health', 'health', 200],
];

/** The bodies that the client sends. */
const bodies = [
  'acquireLock',
  'renewLock',
  'releaseLock',
  'revokeLock',
  'acquireLocks',
  'renewLocks',
  'releaseLocks',
  'createSession',
  'putRecord',
] as const;

/** Whoever knows one of these may act for its owner, so no printed object shows it. */
const secrets = new Set(['leaseId', 'sessionId', 'ticket']);

const document = openApiDocument('unversioned') as unknown as Document;
const described = new Map(
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, operation]) => [operation.operationId, { ...operation, method, path }] as const,
    ),
  ),
);

function operationOf(id: string) {
  const operation = described.get(id);
  if (operation === undefined) throw new Error(`The document has no operation ${id}.`);
  return operation;
}

const resolved = (schema: Schema): Schema => {
  const name = schema.$ref?.split('/').at(-1);
  return name === undefined ? schema : resolved(document.components.schemas[name] as Schema);
};

function schemaIn(content: Content | undefined, where: string): Schema {
  const schema = Object.values(content?.content ?? {})[0]?.schema;
  if (schema === undefined) throw new Error(`The document has no schema for ${where}.`);
  return resolved(schema);
}

function schemaAt(operation: string, status: number, path: readonly string[]): Schema {
  let schema = schemaIn(operationOf(operation).responses[status], `${operation} ${status}`);
  for (const key of path) {
    const property = resolved(schema.properties?.[key] ?? {});
    schema = resolved(property.items ?? property);
  }
  return schema;
}

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const pascal = (name: string): string => `${name[0]?.toUpperCase()}${name.slice(1)}`;
const shapeOf = (schema: Schema): string => JSON.stringify(Object.keys(resolved(schema).properties ?? {}).sort());

const classOfShape = new Map(
  answers.map(([name, operation, status, ...path]) => [shapeOf(schemaAt(operation, status, path)), name]),
);

interface PythonType {
  readonly type: string;
  /** The expression that reads it from JSON. */
  readonly read: (json: string) => string;
}

const asIs = (type: string): PythonType => ({ type, read: (json) => json });
const plain: Readonly<Record<string, string>> = { string: 'str', integer: 'int', number: 'float', boolean: 'bool' };

function pythonOf(given: Schema, nestedIn: string): PythonType {
  const schema = resolved(given);
  const options = schema.anyOf ?? schema.oneOf;
  const types = Array.isArray(schema.type) ? (schema.type as string[]) : undefined;
  if (options?.some(({ type }) => type === 'null') || types?.includes('null')) {
    const rest = options?.find(({ type }) => type !== 'null') ?? {
      ...schema,
      type: types?.find((type) => type !== 'null') as string,
    };
    return asIs(`${pythonOf(rest, nestedIn).type} | None`);
  }
  if (options !== undefined) return asIs([...new Set(options.map((one) => pythonOf(one, nestedIn).type))].join(' | '));
  if (schema.enum !== undefined) return asIs(`Literal[${schema.enum.map((value) => `"${value}"`).join(', ')}]`);
  if (schema.const !== undefined) return asIs(`Literal[${JSON.stringify(schema.const)}]`);
  if (schema.type === 'array') {
    const { type, read } = pythonOf(schema.items ?? {}, nestedIn);
    const one = read('one');
    return { type: `list[${type}]`, read: (json) => (one === 'one' ? json : `[${one} for one in ${json}]`) };
  }
  if (schema.properties !== undefined) {
    const name = classOfShape.get(shapeOf(schema));
    if (name === undefined) throw new Error(`${nestedIn} has an object without a name: ${shapeOf(schema)}`);
    return { type: name, read: (json) => `${name}.read(${json})` };
  }
  if (schema.type === 'object') return asIs('dict[str, str]');
  return asIs(plain[schema.type as string] ?? 'Any');
}

function classLines(name: string, schema: Schema): string[] {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {})
    .map(([key, property]) => ({ key, isRequired: required.has(key), ...pythonOf(property, name) }))
    .sort((one, other) => Number(other.isRequired) - Number(one.isRequired));
  const declared = fields.map(({ key, type, isRequired }) => {
    const optional = isRequired || type.endsWith('| None') || type === 'Any' ? type : `${type} | None`;
    const details = [...(secrets.has(key) ? ['repr=False'] : []), ...(isRequired ? [] : ['default=None'])];
    return `    ${snake(key)}: ${optional}${details.length === 0 ? '' : ` = field(${details.join(', ')})`}`;
  });
  const reads = fields.map(({ key, read, isRequired }) => {
    const json = isRequired ? `body["${key}"]` : `body.get("${key}")`;
    return `            ${snake(key)}=${read(json)},`;
  });
  return [
    '@dataclass(frozen=True, slots=True)',
    `class ${name}:`,
    ...declared,
    '',
    '    @classmethod',
    `    def read(cls, body: Any) -> ${name}:`,
    '        return cls(',
    ...reads,
    '        )',
    '',
    '',
  ];
}

function bodyLines(operation: string): string[] {
  const schema = schemaIn(operationOf(operation).requestBody, operation);
  // A field that is None is not sent.
  const fields = Object.entries(schema.properties ?? {}).map(([key, property]) => {
    const { type } = isNamed(property) ? pythonOf(property, operation) : asIs('Any');
    return `    ${key}: ${type === 'Any' || schema.required?.includes(key) ? type : `${type} | None`}`;
  });
  return [`class ${pascal(operation)}Body(TypedDict, total=False):`, ...fields, '', ''];
}

/** Objects within a request are few and written by hand. */
function isNamed(given: Schema): boolean {
  const property = resolved(given);
  const parts = [property, ...(property.oneOf ?? []), ...(property.items?.anyOf ?? [])];
  return !parts.some((part) => resolved(part).properties !== undefined);
}

const fieldOf = (operation: string, field: string): Schema =>
  schemaIn(operationOf(operation).requestBody, operation).properties?.[field] ?? {};
const patternOf = (operation: string, parameter: string): string =>
  operationOf(operation).parameters.find(({ name }) => name === parameter)?.schema.pattern ?? '';
const raw = (pattern: string | undefined): string => `r"${pattern}"`;
const grouped = (value: unknown): string => String(value).replaceAll(/\B(?=(\d{3})+$)/g, '_');

const leaseMs = fieldOf('acquireLock', 'leaseMs');
const constants = [
  ['LEASE_MS_MIN', grouped(leaseMs.minimum)],
  ['LEASE_MS_DEFAULT', grouped(lockLimits.leaseMsDefault)],
  ['POLL_MS_MAX', grouped(fieldOf('acquireLock', 'pollMs').maximum)],
  ['WAIT_MS_MAX', grouped(fieldOf('acquireLocks', 'waitMs').maximum)],
  ['EXPIRES_IN_MS_MIN', grouped(fieldOf('putRecord', 'expiresInMs').minimum)],
  ['EXPIRES_IN_MS_MAX', grouped(fieldOf('putRecord', 'expiresInMs').maximum)],
  ['NAMESPACE_PATTERN', raw(patternOf('acquireLock', 'ns'))],
  ['NAME_PATTERN', raw(patternOf('acquireLock', 'name'))],
].map(([name, value]) => `${name} = ${value}`);

const problem = document.components.schemas.Problem as Schema;
const lostReasons = (problem.properties?.reason?.enum ?? []).map((reason) => `"${reason}"`).join(', ');
const codes = Object.entries(document['x-problem-codes']).map(([code, { status }]) => `    "${code}": ${status},`);
const routes = [...described.values()].map(
  ({ operationId, method, path }) => `    "${operationId}": ("${method.toUpperCase()}", "${path}"),`,
);

/** The text of `contract.py`. */
export const contractText = [
  '"""What the service promises: limits, routes, problem codes, bodies and answers.',
  '',
  'Generated from the OpenAPI document by clients/python/generate.ts. Do not edit.',
  '"""',
  '',
  'from __future__ import annotations',
  '',
  'from dataclasses import dataclass, field',
  'from typing import Any, Literal, TypedDict',
  '',
  ...constants,
  '',
  `LostReason = Literal[${lostReasons}]`,
  '',
  '# The status of each problem code.',
  'PROBLEMS = {',
  ...codes,
  '}',
  '',
  '# Method and path of each operation.',
  'ROUTES = {',
  ...routes,
  '}',
  '',
  '',
  ...bodies.flatMap(bodyLines),
  ...answers.flatMap(([name, operation, status, ...path]) => classLines(name, schemaAt(operation, status, path))),
]
  .join('\n')
  .trimEnd()
  .concat('\n');

if (import.meta.main) writeFileSync(new URL('./src/holdfast/contract.py', import.meta.url), contractText);
