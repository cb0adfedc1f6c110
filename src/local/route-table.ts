/** A route as it is deployed: `{ method: 'POST', path: '/v1/{ns}/locks/{name}/acquire' }`. */
export interface Route {
  readonly method: string;
  readonly path: string;
}

export interface RouteMatch {
  readonly routeKey: string;
  /** Absent, as in a real event, where the route has no parameters. */
  readonly pathParameters: Record<string, string> | undefined;
}

export interface RouteTable {
  match(method: string, path: string): RouteMatch;
}

interface Leaf {
  readonly routeKey: string;
  readonly parameterNames: readonly string[];
}

interface Branch {
  readonly literals: Map<string, Branch>;
  readonly leaves: Map<string, Leaf>;
  parameter: Branch | undefined;
}

/** What API Gateway names the route of a request that no other route takes. */
export const defaultRouteKey = '$default';

const noMatch: RouteMatch = { routeKey: defaultRouteKey, pathParameters: undefined };

const createBranch = (): Branch => ({ literals: new Map(), leaves: new Map(), parameter: undefined });

function addRoute(root: Branch, route: Route): void {
  const parameterNames: string[] = [];
  let branch = root;
  for (const segment of route.path.slice(1).split('/')) {
    let next: Branch | undefined;
    if (segment.startsWith('{') && segment.endsWith('}')) {
      parameterNames.push(segment.slice(1, -1));
      next = branch.parameter ??= createBranch();
    } else {
      next = branch.literals.get(segment);
      if (next === undefined) {
        next = createBranch();
        branch.literals.set(segment, next);
      }
    }
    branch = next;
  }
  branch.leaves.set(route.method, { routeKey: `${route.method} ${route.path}`, parameterNames });
}

/**
 * Walks the path one segment at a time. A literal segment is tried before a parameter, because API Gateway picks the
 * most specific route; a parameter never takes an empty segment.
 */
function findLeaf(branch: Branch, method: string, path: string, start: number, values: string[]): Leaf | undefined {
  if (start > path.length) return branch.leaves.get(method);
  const slash = path.indexOf('/', start);
  const end = slash === -1 ? path.length : slash;
  const segment = path.slice(start, end);
  const literal = branch.literals.get(segment);
  if (literal !== undefined) {
    const leaf = findLeaf(literal, method, path, end + 1, values);
    if (leaf !== undefined) return leaf;
  }
  if (branch.parameter === undefined || segment === '') return undefined;
  values.push(segment);
  const leaf = findLeaf(branch.parameter, method, path, end + 1, values);
  if (leaf === undefined) values.pop();
  return leaf;
}

/** Compiles the routes once, so that a request costs one walk over its path however many routes there are. */
export function compileRoutes(routes: readonly Route[]): RouteTable {
  const root = createBranch();
  for (const route of routes) {
    if (!route.path.startsWith('/')) throw new Error(`A route path starts with "/", got "${route.path}".`);
    if (route.path.includes('+}')) throw new Error(`Greedy parameters are not supported, got "${route.path}".`);
    addRoute(root, route);
  }
  return {
    match(method, path) {
      const values: string[] = [];
      const leaf = findLeaf(root, method, path, 1, values);
      if (leaf === undefined) return noMatch;
      if (values.length === 0) return { routeKey: leaf.routeKey, pathParameters: undefined };
      const pathParameters: Record<string, string> = {};
      for (let index = 0; index < values.length; index += 1) {
        pathParameters[leaf.parameterNames[index] as string] = values[index] as string;
      }
      return { routeKey: leaf.routeKey, pathParameters };
    },
  };
}
