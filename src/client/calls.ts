import type { Contract, Operation, ParametersOf, Sent } from '../contract/operations.ts';
import type { Call } from './transport.ts';

type Route<Name extends Operation> = `${Contract[Name]['method']} ${Contract[Name]['path']}`;

/** Query, headers and body of a call, as the contract allows them for this operation. */
interface Parts<Name extends Operation> {
  readonly query?: { readonly [Key in keyof Sent<Name, 'query'>]?: string };
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Sent<Name, 'body'>;
}

/**
 * One request. The operation and the route are written out, because the contract is too large for a client: only its
 * types are used here. The compiler checks operation, route, parameters and body against them.
 */
export function callOf<Name extends Operation>(
  operation: Name,
  route: Route<Name>,
  parameters: Readonly<Record<ParametersOf<Contract[Name]['path']>, string>>,
  parts: Parts<Name> = {},
): Call {
  const space = route.indexOf(' ');
  return {
    operation,
    method: route.slice(0, space) as Call['method'],
    route: route.slice(space + 1),
    parameters,
    ...(parts as Pick<Call, 'query' | 'headers' | 'body'>),
  };
}
