/** A page about the HTTP API, made from the OpenAPI document, so that both say the same. */
import { openApiDocument } from '../../../src/http/openapi.ts';

// biome-ignore lint/suspicious/noExplicitAny: it is read as the JSON that it is.
type Json = any;

const escaped = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** A schema in a few words. */
function typeOf(schema: Json): string {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1);
    return `[${name}](#${name.toLowerCase()})`;
  }
  if (schema.oneOf ?? schema.anyOf) return (schema.oneOf ?? schema.anyOf).map(typeOf).join(' or ');
  if (schema.enum) return schema.enum.map((value: unknown) => `\`${value}\``).join(', ');
  const types: string[] = [schema.type ?? 'any JSON'].flat();
  return types.map((type) => nameOfType(type, schema)).join(' or ');
}

function nameOfType(type: string, schema: Json): string {
  if (type === 'array') return `list of ${typeOf(schema.items)}`;
  if (type === 'object' && schema.additionalProperties?.type) return `object of ${schema.additionalProperties.type}s`;
  if (type === 'object' && schema.properties) return `object with ${Object.keys(schema.properties).join(', ')}`;
  if (type === 'integer') return 'integer';
  return schema.format === 'date-time' && type === 'string' ? 'instant' : type;
}

/** The limits of a value, and its default. */
function rangeOf({ minimum, maximum, minLength, maxLength, minItems, maxItems, default: fallback }: Json): string {
  const isOpen = maximum === undefined || maximum === Number.MAX_SAFE_INTEGER;
  return [
    minimum === undefined ? '' : isOpen ? `from ${minimum}` : `${minimum} to ${maximum}`,
    minLength === undefined ? '' : `${minLength} to ${maxLength} characters`,
    minItems === undefined ? '' : `${minItems} to ${maxItems}`,
    fallback === undefined || fallback === '' ? '' : `default ${fallback}`,
  ]
    .filter((part) => part !== '')
    .join('; ');
}

const row = (...cells: string[]): string => `| ${cells.join(' | ')} |`;

function fieldTable(schema: Json): string[] {
  const fields = Object.entries<Json>(schema.properties ?? {});
  if (fields.length === 0) return ['No fields.'];
  const required: string[] = schema.required ?? [];
  return [
    row('field', 'type', 'range', 'meaning'),
    '|---|---|---|---|',
    ...fields.map(([name, field]) =>
      row(
        `\`${name}\`${required.includes(name) ? '' : '?'}`,
        typeOf(field),
        rangeOf(field),
        escaped(field.description ?? ''),
      ),
    ),
  ];
}

function operationSection(method: string, path: string, operation: Json, schemas: Json): string[] {
  const body = operation.requestBody?.content['application/json'].schema;
  const parameters: Json[] = operation.parameters.filter((parameter: Json) => parameter.in !== 'path');
  const answers = Object.entries<Json>(operation.responses).filter(([status]) => status !== 'default');
  return [
    `### ${operation.operationId}`,
    '',
    `\`${method.toUpperCase()} ${path}\`, right: \`${operation['x-access']}\``,
    '',
    ...wrapped(operation.description),
    ...(parameters.length === 0
      ? []
      : [
          '',
          row('parameter', 'in', 'type', 'meaning'),
          '|---|---|---|---|',
          ...parameters.map(({ name, in: where, required, schema, description = '' }) =>
            row(
              `\`${name}\`${required ? '' : '?'}`,
              where,
              [typeOf(schema), rangeOf(schema)].filter(Boolean).join(', '),
              escaped(description),
            ),
          ),
        ]),
    ...(body === undefined ? [] : ['', 'Request:', '', ...fieldTable(schemas[body.$ref.split('/').at(-1)])]),
    '',
    row('status', 'answer'),
    '|---|---|',
    ...answers.map(([status, { content, description, 'x-codes': codes }]) =>
      row(
        status,
        codes === undefined
          ? content === undefined
            ? description
            : typeOf(content['application/json'].schema)
          : codes.map((code: string) => `\`${code}\``).join(', '),
      ),
    ),
    '',
  ];
}

/** Wraps prose at 100 columns. */
export function wrapped(text: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last !== undefined && `${last} ${word}`.length <= 100) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

export function httpReference(): string {
  const document: Json = openApiDocument('0.0.0');
  const { schemas } = document.components;
  const operations = Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  const answers = Object.entries<Json>(schemas).filter(([name]) => !name.endsWith('Request'));
  return `${[
    '# HTTP reference',
    '',
    '`npm run docs:reference` makes this page from the OpenAPI document, which the service publishes at',
    '`/v1/openapi.json`. A test fails if the two differ. [HTTP from other languages](../http.md) has whole',
    'programs.',
    '',
    ...wrapped(document.info.description),
    '',
    'A `?` marks what may be left out. `{ns}` is a namespace, `{name}`, `{key}` and `{id}` are names:',
    '[names and namespaces](../names.md). Every answer has `x-request-id`.',
    '',
    '## Problems',
    '',
    row('code', 'status', 'meaning'),
    '|---|---|---|',
    ...Object.entries<Json>(document['x-problem-codes']).map(([code, { status, title }]) =>
      row(`\`${code}\``, String(status), `${title}.`),
    ),
    '',
    ...document.tags.flatMap(({ name, description }: Json) => [
      `## ${name.charAt(0).toUpperCase()}${name.slice(1)}`,
      '',
      description,
      '',
      ...operations
        .filter(({ operation }) => operation.tags[0] === name)
        .flatMap(({ method, path, operation }) => operationSection(method, path, operation, schemas)),
    ]),
    '## Shapes of answers and requests',
    '',
    ...answers.flatMap(([name, schema]) => [`### ${name}`, '', ...fieldTable(schema), '']),
  ].join('\n')}`.replace(/\n+$/, '\n');
}
