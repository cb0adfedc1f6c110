import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { describe, expect, it } from 'vitest';
import type { GrantScope, LockServiceProps } from '../../infra/lock-service.ts';
import { createStack } from './synthesized.ts';

/** As plain JavaScript would pass it. */
const given = (props: object) => () => createStack(props as LockServiceProps);

describe('the properties of the construct', () => {
  it.each([
    [{ tableOnly: true, jwt: { issuer: 'https://a', audience: ['b'] } }, 'it takes no jwt'],
    [{ tableOnly: true, throttle: {}, history: false }, 'it takes no throttle, history'],
    [{ throttle: 0 }, 'throttle must be { ratePerSecond, burst }, got 0'],
    [{ throttle: { ratePerSecond: 0 } }, 'throttle.ratePerSecond must be a whole number of 1 or more, got 0'],
    [{ throttle: { burst: -1 } }, 'throttle.burst must be a whole number of 1 or more, got -1'],
    [{ reservedConcurrency: { acquire: 0 } }, 'reservedConcurrency.acquire must be a whole number of 1 or more, got 0'],
    [{ reservedConcurrency: { aquire: 5 } }, /reservedConcurrency knows .*, but got aquire/],
  ])('are refused if they would be ignored or switch the service off: %j', (props, why) => {
    expect(given(props)).toThrow(why);
  });

  it.each([
    { tableOnly: true, jwt: undefined },
    { throttle: { ratePerSecond: 1, burst: 1 }, reservedConcurrency: { acquire: 1, http: undefined } },
  ])('are taken if they mean something: %j', (props) => {
    expect(given(props)).not.toThrow();
  });
});

describe('a grant without a namespace', () => {
  it.each(['grantInspect', 'grantUse', 'grantAdmin', 'grantDirect'] as const)(
    'is refused by %s, with an example',
    (method) => {
      const stack = createStack();
      const { locks } = stack;
      const role = new Role(stack, 'Worker', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
      for (const scope of [undefined, {}]) {
        expect(() => locks[method](role, scope as GrantScope)).toThrow(
          `${method} needs a namespace, as in ${method}(who, { namespace: 'orders' }); '*' means every namespace.`,
        );
      }
    },
  );
});
