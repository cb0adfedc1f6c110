import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { describe, expect, it } from 'vitest';
import { patternsOf, type Right } from '../../infra/access.ts';
import type { LockService } from '../../infra/lock-service.ts';
import { namespaceName } from '../../src/contract/fields.ts';
import { type Access, type Route, routes } from '../../src/contract/operations.ts';
import { createStack, statementsOf, templateOf } from './synthesized.ts';

const table: readonly Route[] = routes;

/** IAM's own rule: `*` matches any characters, slashes too, and `?` matches exactly one. */
const covers = (pattern: string, text: string): boolean =>
  new RegExp(
    `^${pattern
      .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('?', '.')}$`,
  ).test(text);

const requestTo = ({ method, path }: Route, namespace: string): string =>
  `${method}${path.replace('{ns}', namespace).replaceAll(/\{\w+\}/g, 'some-name')}`;

const opens = (right: Right, request: string): boolean =>
  patternsOf(right, 'orders').some(({ method, path }) => covers(`${method}${path}`, request));

const rights: [Right, Access[]][] = [
  ['inspect', ['public', 'inspect']],
  ['use', ['public', 'inspect', 'use']],
  ['admin', ['public', 'inspect', 'admin']],
];

describe.each(rights)('the right to %s', (right, accesses) => {
  it('opens the routes that are for it, and no other', () => {
    for (const route of table) {
      const request = requestTo(route, 'orders');
      expect(opens(right, request), request).toBe(accesses.includes(route.access));
    }
  });

  it('does not take the list of all for a lock without a name', () => {
    expect(opens(right, 'GET/v1/orders/locks/')).toBe(false);
  });

  it('has no pattern that another one covers, because a policy has a maximum length', () => {
    const patterns = patternsOf(right, 'orders').map(({ method, path }) => `${method}${path}`);
    for (const one of patterns) {
      const others = patterns.filter((other) => other !== one && covers(other, one));
      expect(others, one).toEqual([]);
    }
    expect(new Set(patterns).size).toBe(patterns.length);
  });

  it('opens nothing in another namespace', () => {
    for (const route of table) {
      if (!route.path.includes('{ns}')) continue;
      expect(opens(right, requestTo(route, 'billing')), route.path).toBe(false);
      expect(opens(right, requestTo(route, 'orders-eu')), route.path).toBe(false);
    }
  });
});

describe('a grant', () => {
  const policyOf = (give: (locks: LockService, worker: Role) => void) => {
    const stack = createStack();
    const worker = new Role(stack, 'Worker', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    give(stack.locks, worker);
    return statementsOf(templateOf(stack), 'Worker');
  };

  it('allows calls by method and path of the one API', () => {
    const [statement, ...others] = policyOf((locks, worker) => locks.grantUse(worker, { namespace: 'orders' }));
    expect(others).toEqual([]);
    expect(statement?.actions).toEqual(['execute-api:Invoke']);
    const api = /^arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<LocksHttpApi\w+>\/\$default\//;
    const calls = statement?.resources.filter((resource) => !resource.endsWith('/$connect')) ?? [];
    for (const resource of calls) expect(resource).toMatch(api);
    const requests = calls.map((resource) => resource.replace(api, ''));
    expect(requests).toContain('POST/v1/orders/locks/?*/acquire');
    expect(requests).toContain('GET/v1/health');
    expect(requests).not.toContain('POST/v1/orders/locks/?*/revoke');
  });

  it('reaches every namespace only if the grant says so', () => {
    const [statement] = policyOf((locks, worker) => locks.grantAdmin(worker, { namespace: '*' }));
    expect(statement?.resources.some((resource) => resource.endsWith('POST/v1/*/locks/?*/revoke'))).toBe(true);
  });

  it.each(['', 'Orders', 'orders*', 'or?ers', 'orders/locks', '-a'])('refuses the namespace %j', (namespace) => {
    const { locks } = createStack({ tableOnly: true });
    expect(() => patternsOf('use', namespace)).toThrow('A namespace must be');
    expect(() => locks.grantDirect({} as Role, { namespace })).toThrow('A namespace must be');
  });

  it('takes every namespace that the contract takes', () => {
    const names = [
      'a',
      '0',
      'orders',
      'orders-eu-1',
      'a-',
      'x'.repeat(63),
      'x'.repeat(64),
      'a_b',
      'A',
      'a.b',
      'a b',
      'ä',
      '-',
    ];
    for (const name of names) {
      const grant = () => patternsOf('use', name);
      if (namespaceName.safeParse(name).success) expect(grant, name).not.toThrow();
      else expect(grant, name).toThrow('A namespace must be');
    }
  });

  it('opens connections, which need a ticket of its namespace besides', () => {
    for (const give of ['grantInspect', 'grantUse', 'grantAdmin'] as const) {
      const [statement] = policyOf((locks, worker) => locks[give](worker, { namespace: 'orders' }));
      expect(statement?.resources).toContainEqual(expect.stringMatching(/<LocksWatchApi\w+>\/v1\/\$connect$/));
      expect(statement?.resources).toContainEqual(expect.stringMatching(/\/POST\/v1\/orders\/tickets$/));
    }
  });

  it('to the table reaches every namespace only if it says so', () => {
    const statements = policyOf((locks, worker) => locks.grantDirect(worker, { namespace: '*' }));
    const actions = statements.filter(({ resources }) => !resources[0]?.includes('/index/')).map((one) => one.actions);
    expect(actions).toEqual([
      ['BatchGetItem', 'GetItem', 'PutItem', 'Query', 'UpdateItem'].map((action) => `dynamodb:${action}`),
    ]);
    for (const { conditions } of statements) expect(conditions).toBeUndefined();
  });

  it('to the table reaches the items of one namespace, by their leading key', () => {
    const statements = policyOf((locks, worker) => locks.grantDirect(worker, { namespace: 'orders' }));
    expect(statements.length).toBeGreaterThan(0);
    for (const { actions, conditions, resources } of statements) {
      // The partitions of that index are session ids, which nobody can guess.
      if (resources[0]?.endsWith('/index/by-session')) {
        expect(conditions).toBeUndefined();
        continue;
      }
      expect(conditions).toEqual({ 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': ['orders/*'] } });
      expect(actions).not.toContain('dynamodb:Scan');
      expect(actions).not.toContain('dynamodb:*');
    }
  });
});
