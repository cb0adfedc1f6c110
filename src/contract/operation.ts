import type * as z from 'zod';
import type { ProblemCode } from './problems.ts';

/**
 * The right that an operation needs. `public`: none. `inspect`: to read. `use`: to take locks and to write. `admin`: to end
 * leases of others and to list everything.
 */
export type Access = 'public' | 'inspect' | 'use' | 'admin';

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** What one operation promises to its callers. Handlers, validation, OpenAPI, the stack and the SDK are derived from it. */
export interface OperationContract {
  /** The method and the path. `{ns}` is a namespace. Every other parameter is a name. */
  readonly route: `${Method} /${string}`;
  readonly access: Access;
  readonly summary: string;
  readonly body?: z.ZodType;
  /** True if the operation gets the body as text, because parsing would change it. Its schema is only for OpenAPI. */
  readonly verbatim?: true;
  /** Set if it is not the usual one. */
  readonly bodyBytesMax?: number;
  readonly query?: z.ZodObject;
  readonly headers?: z.ZodObject;
  /** Answers of success by status. */
  readonly answers: Readonly<Record<number, z.ZodType>>;
  /** Answers without a body by status, each with its meaning. */
  readonly bareAnswers?: Readonly<Record<number, string>>;
  /** Its own problems, besides the ones that every operation has. */
  readonly problems?: readonly ProblemCode[];
}
