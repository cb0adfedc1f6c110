import type { Contract, Operation, ParametersOf, Sent } from '../contract/operations.ts';
import type { Call } from './transport.ts';

/** Query, headers and body of a call, as the contract allows them for this operation. */
interface Parts<Name extends Operation> {
  /** Values that are undefined are not sent. The same holds for the fields of the body, because JSON has no undefined. */
  readonly query?: { readonly [Key in keyof Sent<Name, 'query'>]?: string | number | undefined };
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Sent<Name, 'body'>;
}

/**
 * One request. The operation and the route are written out, because the contract is too large for a client: only its
 * types are used here. The compiler checks operation, route, parameters and body against them.
 */
export function callOf<Name extends Operation>(
  operation: Name,
  route: Contract[Name]['route'],
  parameters: Readonly<Record<ParametersOf<Contract[Name]['route']>, string>>,
  { query, headers, body }: Parts<Name> = {},
): Call {
  const [method, path] = route.split(' ') as [Call['method'], string];
  return { operation, method, route: path, parameters, query: query && textOf(query), headers, body };
}

/** Query parameters are text. */
const textOf = (query: object): Record<string, string> => {
  const sent = Object.entries(query).filter(([, value]) => value !== undefined);
  return Object.fromEntries(sent.map(([name, value]) => [name, String(value)]));
};
