/**
 * What all guards share: they check a fence, read a stored floor, and refuse a stale write.
 *
 * All guards follow one rule. A write whose fence is below the floor is refused. Any other write is applied and raises
 * the floor to its fence, in the same atomic step. An equal fence is accepted, because one holder may write many times.
 */
import { StaleFenceError } from '../client/errors.ts';

/**
 * A write that was refused because its fence is below the floor.
 *
 * @example
 * ```ts
 * const outcome = await putFenced(objects, { key: 'report.json', fence: grant.fence, value: report });
 * if (outcome.kind === 'stale') console.warn(`a later holder, ${outcome.floor}, has written already`);
 * ```
 */
export interface Stale {
  readonly kind: 'stale';
  /** The fence that the write carried. */
  readonly fence: number;
  /** The highest fence that the resource has seen. */
  readonly floor: number;
}

/**
 * Recognises a {@link StaleFenceError} by its code, so that it also works for an error from another copy of this
 * package.
 *
 * @example
 * ```ts
 * if (isStaleFence(error)) logger.warn(`A later holder has written, with fence ${error.floor}.`);
 * ```
 */
export function isStaleFence(error: unknown): error is StaleFenceError {
  return error instanceof Error && (error as { code?: unknown }).code === 'stale-fence';
}

/**
 * Turns a stale outcome of any guard into a {@link StaleFenceError}, and returns every other outcome. It is the same
 * class that the SDK throws for a record.
 *
 * @example
 * ```ts
 * const written = throwIfStale(await executeFenced(run, statement)); // 'written' or 'missing', never 'stale'
 * ```
 */
export function throwIfStale<O extends { readonly kind: string }>(outcome: O): Exclude<O, { readonly kind: 'stale' }> {
  if (outcome.kind === 'stale') {
    const { fence, floor } = outcome as unknown as Stale;
    throw new StaleFenceError(
      `The write carried fence ${fence}, but the resource has already seen ${floor}: a later holder has written.`,
      floor,
    );
  }
  return outcome as Exclude<O, { readonly kind: 'stale' }>;
}

/**
 * Checks a fence before it is sent anywhere: a positive integer that a JSON number holds exactly.
 *
 * @returns the fence, so that the check can be part of an expression.
 * @throws TypeError that says what was expected and what was given.
 *
 * @example
 * ```ts
 * const fence = checkFence(Number(request.headers['fence-token']));
 * ```
 */
export function checkFence(fence: unknown): number {
  if (typeof fence === 'number' && Number.isSafeInteger(fence) && fence > 0) return fence;
  const given = typeof fence === 'string' ? `the string ${JSON.stringify(fence)}` : String(fence);
  throw new TypeError(
    `A fence is a positive integer of at most ${Number.MAX_SAFE_INTEGER}, as a grant carries it in \`fence\`; got ${given}.`,
  );
}

/**
 * Reads a floor as a store returns it: a number, a bigint, or decimal digits (Postgres drivers give BIGINT as text).
 * A floor that can't be read is an error. It must never count as "no floor": then a stale write would pass.
 *
 * @param where names the place in the error message.
 *
 * @example
 * ```ts
 * readFloor('1800000000034', 'column "fence"'); // 1800000000034
 * ```
 */
export function readFloor(stored: unknown, where: string): number {
  const digits =
    typeof stored === 'string' || typeof stored === 'bigint' || typeof stored === 'number' ? String(stored) : '';
  const floor = /^\d+$/.test(digits) ? Number(digits) : Number.NaN;
  if (Number.isSafeInteger(floor)) return floor;
  throw new TypeError(
    `Expected the floor in ${where} to be an integer from 0 to ${Number.MAX_SAFE_INTEGER}; found ${describe(stored)}.`,
  );
}

function describe(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : `${typeof value} ${String(value)}`;
}
