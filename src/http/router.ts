/** Finds the operation of a path. It is made from the contract, and there is no other path matcher. */
import { type Operation, routes } from '../contract/operations.ts';

export interface Match {
  /** The operations of this path by method. */
  readonly operations: ReadonlyMap<string, Operation>;
  readonly parameters: Readonly<Record<string, string>>;
}

interface Template {
  readonly segments: readonly string[];
  readonly operations: ReadonlyMap<string, Operation>;
}

const parameterOf = (segment: string): string | undefined =>
  segment.startsWith('{') ? segment.slice(1, -1) : undefined;

/** By number of segments. Their order does not matter: no path fits two of them, which a test checks. */
const templates = Map.groupBy(
  [...Map.groupBy(routes, ({ path }) => path)].map(([path, own]): Template => {
    const operations = new Map<string, Operation>(own.map(({ method, operation }) => [method, operation]));
    return { segments: path.split('/'), operations };
  }),
  ({ segments }) => segments.length,
);

/** Finds a decoded path. A parameter never matches an empty segment. */
export function matchPath(path: string): Match | undefined {
  const segments = path.split('/');
  for (const template of templates.get(segments.length) ?? []) {
    const parameters = parametersIn(template, segments);
    if (parameters !== undefined) return { operations: template.operations, parameters };
  }
  return undefined;
}

function parametersIn(template: Template, segments: readonly string[]): Record<string, string> | undefined {
  const parameters: Record<string, string> = {};
  for (const [index, expected] of template.segments.entries()) {
    const segment = segments[index] ?? '';
    const name = parameterOf(expected);
    if (name === undefined ? segment !== expected : segment === '') return undefined;
    if (name !== undefined) parameters[name] = segment;
  }
  return parameters;
}
