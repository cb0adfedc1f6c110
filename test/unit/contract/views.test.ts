/** Compares the types that the SDK publishes with the schemas of the answers: the compiler fails if they differ. */
import { describe, expect, it } from 'vitest';
import type * as z from 'zod';
import { nameRules } from '../../../src/contract/limits.ts';
import type { Contract, OperationContract, problem } from '../../../src/contract/operations.ts';
import { operations, routes } from '../../../src/contract/operations.ts';
import { problemTypes } from '../../../src/contract/problems.ts';
import type * as views from '../../../src/contract/views.ts';

/** The type of a schema in the form in which we write types: read-only, and missing instead of undefined. */
type Plain<T> = T extends readonly (infer Each)[]
  ? readonly Plain<Each>[]
  : T extends object
    ? { readonly [Key in keyof T]: Plain<Exclude<T[Key], undefined>> }
    : T;
/** An interface that extends another is flattened, so that only its fields count. */
type Flat<T> = T extends readonly (infer Each)[]
  ? readonly Flat<Each>[]
  : T extends object
    ? { readonly [Key in keyof T]: Flat<T[Key]> }
    : T;
type Same<One, Other> =
  (<T>() => T extends One ? 1 : 2) extends <T>() => T extends Other ? 1 : 2 ? true : { one: One; other: Other };
type Shown<Name extends keyof Contract, Status extends number> = Contract[Name]['answers'] extends {
  readonly [Key in Status]: infer Schema extends z.ZodType;
}
  ? Plain<z.output<Schema>>
  : never;
type Agrees<View, Name extends keyof Contract, Status extends number> = Same<Flat<View>, Flat<Shown<Name, Status>>>;

type Problem = Plain<z.output<typeof problem>>;
type Body = Plain<z.input<Contract['acquireLock']['body']>>;

describe('the published types', () => {
  it('are those of the published schemas', () => {
    const agreements: true[] = [
      true satisfies Agrees<views.GrantBody, 'acquireLock', 200>,
      true satisfies Agrees<views.GrantBody, 'renewLock', 200>,
      true satisfies Agrees<views.WaitingBody, 'acquireLock', 202>,
      true satisfies Agrees<views.ReleaseBody, 'releaseLock', 200>,
      true satisfies Agrees<views.LockView, 'inspectLock', 200>,
      true satisfies Agrees<views.FenceCheck, 'checkFence', 200>,
      true satisfies Agrees<
        { readonly locks: readonly views.LockSummary[]; readonly cursor?: string },
        'listLocks',
        200
      >,
      true satisfies Agrees<
        { readonly events: readonly views.LockEvent[]; readonly cursor?: string },
        'lockHistory',
        200
      >,
      true satisfies Agrees<views.ManyGrantBody, 'acquireLocks', 200>,
      true satisfies Agrees<views.ManyWaitingBody, 'acquireLocks', 202>,
      true satisfies Agrees<views.ManyReleaseBody, 'releaseLocks', 200>,
      true satisfies Agrees<views.SessionBody, 'createSession', 201>,
      true satisfies Agrees<views.SessionBody, 'keepSessionAlive', 200>,
      true satisfies Agrees<views.SessionView, 'getSession', 200>,
      true satisfies Agrees<views.SessionEnd, 'endSession', 200>,
      true satisfies Agrees<views.RecordWritten, 'putRecord', 201>,
      true satisfies Agrees<views.Health, 'health', 200>,
      true satisfies Same<readonly views.FieldError[], Exclude<Problem['errors'], undefined>>,
      true satisfies Same<readonly views.HolderView[], Exclude<Problem['holders'], undefined>>,
      true satisfies Same<readonly views.DeadlockStep[], Exclude<Problem['cycle'], undefined>>,
      true satisfies Same<views.Notify, Exclude<Body['notify'], undefined>>,
    ];
    expect(agreements).not.toContain(false);
  });
});

describe('the contract', () => {
  it('has one operation for each method and path', () => {
    const keys = routes.map(({ method, path }) => `${method} ${path}`);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('has one problem for each failure, each with a fitting status', () => {
    for (const [name, { problems = [] }] of Object.entries<OperationContract>(operations)) {
      expect(new Set(problems).size, name).toBe(problems.length);
      for (const code of problems) expect(problemTypes[code].status, `${name} ${code}`).toBeLessThan(500);
    }
  });

  it('allows no name that must be escaped in a path', () => {
    const unescaped = /^[A-Za-z0-9\-._~!$&'()*+,;=:@]+$/;
    for (const character of Array.from({ length: 128 }, (_, code) => String.fromCharCode(code))) {
      if (nameRules.resource.pattern.test(`a${character}`)) expect(character).toMatch(unescaped);
    }
  });
});
