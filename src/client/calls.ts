import type { Contract, Operation, ParametersOf, Sent } from '../contract/operations.ts';
import type { Call } from './transport.ts';

type Route<Name extends Operation> = `${Contract[Name]['method']} ${Contract[Name]['path']}`;

/** What goes with a call; the contract says what each operation takes. */
interface Parts<Name extends Operation> {
  readonly query?: { readonly [Key in keyof Sent<Name, 'query'>]?: string };
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Sent<Name, 'body'>;
}

/**
 * One request. Operation and route are written out, because the contract itself is too heavy for a client: only its types come this
 * far. The compiler holds them, the parameters and the body against it.
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
