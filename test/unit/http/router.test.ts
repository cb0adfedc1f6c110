import { describe, expect, it } from 'vitest';
import { routes } from '../../../src/contract/operations.ts';
import { matchPath } from '../../../src/http/router.ts';

describe('the router', () => {
  const found = (path: string) => {
    const match = matchPath(path);
    return match && { operations: Object.fromEntries(match.operations), parameters: match.parameters };
  };

  it('finds the operations of a path by method, and the parameters in it', () => {
    expect(found('/v1/shop/records/cart:7')).toEqual({
      operations: { GET: 'getRecord', PUT: 'putRecord', DELETE: 'deleteRecord' },
      parameters: { ns: 'shop', key: 'cart:7' },
    });
    expect(found('/v1/shop/locks/{name}')).toEqual({
      operations: { GET: 'inspectLock' },
      parameters: { ns: 'shop', name: '{name}' },
    });
  });

  it('never has to choose: no path fits two routes of the contract', () => {
    const paths = [...new Set(routes.map(({ path }) => path))].map((path) => path.split('/'));
    const isFree = (segment: string) => segment.startsWith('{');
    const meet = (one: string[], other: string[]) =>
      one.length === other.length &&
      one.every((segment, index) => {
        const beside = other[index] as string;
        return segment === beside || isFree(segment) || isFree(beside);
      });
    for (const one of paths) expect(paths.filter((other) => meet(one, other))).toEqual([one]);
  });

  it('finds a path without parameters, and one with a literal end', () => {
    expect(found('/v1/shop/multi-locks/acquire')).toEqual({
      operations: { POST: 'acquireLocks' },
      parameters: { ns: 'shop' },
    });
    expect(found('/v1/health')).toEqual({ operations: { GET: 'health' }, parameters: {} });
  });

  it.each(['', '/', '/v1', '/v2/health', '/v1/health/', '/v1/shop/locks/', '/v1//locks/a', '/v1/shop/locks/a/b'])(
    'finds nothing at %s',
    (path) => {
      expect(found(path)).toBeUndefined();
    },
  );
});
