/** Who may call what, as IAM sees it: one ARN per route, with the namespace spelled out. */

import { nameRules } from '../src/contract/limits.ts';
import { type Access, type Route, routes } from '../src/contract/operations.ts';

/**
 * What each right includes. Whoever locks may look, since a refusal shows the holders anyway and a record is read before it is
 * written. Whoever ends what others hold looks first, but need not be able to take locks.
 */
const included: Record<Exclude<Access, 'public'>, readonly Access[]> = {
  inspect: ['public', 'inspect'],
  use: ['public', 'inspect', 'use'],
  admin: ['public', 'inspect', 'admin'],
};

export type Right = keyof typeof included;

/** Every namespace, for grants. No namespace is called so. */
export const everyNamespace = '*';

/** A path parameter is at least one character, so that `/locks/` does not pass for a lock. */
const anyName = '?*';

export interface Pattern {
  readonly method: Route['method'];
  readonly path: string;
}

/** The methods and paths that a right opens in a namespace, with IAM's wildcards in place of names. */
export function patternsOf(right: Right, namespace: string, table: readonly Route[] = routes): Pattern[] {
  const scope = namespaceOf(namespace);
  const opened = table
    .filter(({ access }) => included[right].includes(access))
    .map(({ method, path }) => ({
      method,
      path: path.replaceAll(/\{(\w+)\}/g, (_, name) => (name === 'ns' ? scope : anyName)),
    }));
  // A policy has a maximum length, and IAM's wildcards reach past slashes: what another pattern covers need not be said.
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

/** A namespace goes into policies, where a stray `*` or `?` would open others. */
export function namespaceOf(given: string): string {
  if (given === everyNamespace || nameRules.namespace.pattern.test(given)) return given;
  throw new Error(`A namespace must be ${nameRules.namespace.allowed}, or "*" for every one; got ${given}.`);
}
