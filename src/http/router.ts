import { type Operation, type Route, routes } from './routes.ts';

const byKey = new Map<string, Operation>(routes.map((route) => [`${route.method} ${route.path}`, route.operation]));

/** The operation of a route key as API Gateway names it, such as `GET /v1/health`. */
export const operationOf = (routeKey: string): Operation | undefined => byKey.get(routeKey);

/** The methods that a path takes; none where the path is not known. */
export function methodsAt(path: string, table: readonly Route[] = routes): string[] {
  const segments = path.split('/');
  return table.filter((route) => matches(route.path.split('/'), segments)).map(({ method }) => method);
}

const matches = (pattern: readonly string[], segments: readonly string[]): boolean =>
  pattern.length === segments.length &&
  pattern.every((part, index) => (part.startsWith('{') ? segments[index] !== '' : part === segments[index]));
