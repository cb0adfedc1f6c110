/** Which caller may call which route, in terms of IAM: one ARN per route, with the namespace in it. */

import { nameRules } from '../src/contract/limits.ts';
import { type Access, type Route, routes } from '../src/contract/operations.ts';

/**
 * What each right includes. A caller that locks may also look: a refusal shows the holders anyway, and a record is read
 * before it is written. A caller that ends other holders' leases must look first, but need not be able to take locks.
 */
const included: Record<Exclude<Access, 'public'>, readonly Access[]> = {
  inspect: ['public', 'inspect'],
  use: ['public', 'inspect', 'use'],
  admin: ['public', 'inspect', 'admin'],
};

export type Right = keyof typeof included;

/** Means every namespace in grants. No namespace can have this name. */
export const everyNamespace = '*';

/** A path parameter has at least one character, so that `/locks/` does not match as a lock. */
const anyName = '?*';

export interface Pattern {
  readonly method: Route['method'];
  readonly path: string;
}

/** The methods and paths that a right allows in a namespace, with IAM's wildcards for names. */
export function patternsOf(right: Right, namespace: string, table: readonly Route[] = routes): Pattern[] {
  const scope = namespaceOf(namespace);
  const opened = table
    .filter(({ access }) => included[right].includes(access))
    .map(({ method, path }) => ({
      method,
      path: path.replaceAll(/\{(\w+)\}/g, (_, name) => (name === 'ns' ? scope : anyName)),
    }));
  // A policy has a maximum length, and IAM's wildcards also match slashes. So a pattern that another one covers is left
  // out.
  return opened.filter(
    (one) =>
      !opened.some(
        (other) =>
          other !== one &&
          other.method === one.method &&
          other.path.endsWith(anyName) &&
          one.path.startsWith(other.path.slice(0, -anyName.length)),
      ),
  );
}

/** The namespace becomes part of a policy, where a `*` or `?` would allow other namespaces too. */
export function namespaceOf(given: string): string {
  if (given === everyNamespace || nameRules.namespace.pattern.test(given)) return given;
  throw new Error(`A namespace must be ${nameRules.namespace.allowed}, or "*" for all; got ${given}.`);
}
