import type * as z from 'zod';
import type { ProblemCode } from './problems.ts';

/**
 * Whose right an operation takes: `public` anybody who reaches the service, `inspect` to look, `use` to lock and write, `admin` to
 * end what others hold and to list everything.
 */
export type Access = 'public' | 'inspect' | 'use' | 'admin';

/** Where an operation is found, and whose right it takes. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** `{ns}` is a namespace, every other parameter a name. */
  readonly path: string;
  readonly access: Access;
}

/** Everything that callers are promised of one operation. Handlers, validation, OpenAPI, the stack and the SDK read it from here. */
export interface OperationContract extends Route {
  readonly summary: string;
  readonly body?: z.ZodType;
  /** The body reaches the operation as the text that came: parsing would change it. Its schema is only published. */
  readonly verbatim?: true;
  /** Where it is not the usual one. */
  readonly bodyBytesMax?: number;
  readonly query?: z.ZodObject;
  readonly headers?: z.ZodObject;
  /** Successes by status. */
  readonly answers: Readonly<Record<number, z.ZodType>>;
  /** Answers without a body by status, each with its meaning. */
  readonly bareAnswers?: Readonly<Record<number, string>>;
  /** The refusals of its own, beside those that every operation may answer. */
  readonly problems: readonly ProblemCode[];
}
