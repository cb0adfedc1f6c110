/** A request before it is authorized. */
export interface Unsigned {
  readonly method: string;
  readonly url: URL;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

/**
 * Gives the headers that authorize a request. It is called for every try, so its headers may be short-lived.
 *
 * @example
 * ```ts
 * const auth: Auth = async () => ({ authorization: `Bearer ${await freshToken()}` });
 * ```
 */
export type Auth = (request: Unsigned) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>;

/**
 * A bearer token, or a function that gives one. For a JWT authorizer, and for the local service with `HOLDFAST_TOKEN`.
 *
 * @example
 * ```ts
 * new Holdfast({ url, namespace: 'payments', auth: bearer(process.env.HOLDFAST_TOKEN) });
 * ```
 */
export const bearer =
  (token: string | (() => string | Promise<string>)): Auth =>
  async () => ({ authorization: `Bearer ${typeof token === 'function' ? await token() : token}` });
