import { Duration } from 'aws-cdk-lib';
import { describe, expect, it } from 'vitest';
import { functionNames } from '../../infra/function-code.ts';
import { tableAccess } from '../../infra/table-access.ts';
import { tableShape } from '../../src/table/shape.ts';
import { createStack, resourcesOf, spell, statementsOf, templateOf } from './synthesized.ts';

const deployed = templateOf(createStack());
const titleOf = (name: string): string => name.replace(/^./, (letter) => letter.toUpperCase());

const functionOf = (name: string, template = deployed) => {
  const found = resourcesOf(template, 'AWS::Lambda::Function').filter(([id]) =>
    id.includes(`${titleOf(name)}Function`),
  );
  if (found[0] === undefined || found.length > 1)
    throw new Error(`Expected one function ${name}, found ${found.length}.`);
  return found[0][1].Properties;
};

describe.each(functionNames)('the %s function', (name) => {
  const { Environment, ...properties } = functionOf(name);
  const statements = statementsOf(deployed, `${titleOf(name)}Role`);

  it('runs on Node 24 and ARM, logs JSON and is never traced', () => {
    expect(properties).toMatchObject({
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      Handler: 'index.handler',
      LoggingConfig: { LogFormat: 'JSON', ApplicationLogLevel: 'INFO', SystemLogLevel: 'WARN' },
    });
    expect(properties.TracingConfig).toBeUndefined();
  });

  it('has its own role and its own log group, which is not kept without end', () => {
    const others = functionNames.filter((other) => other !== name).map((other) => spell(functionOf(other).Role));
    expect(others).not.toContain(spell(properties.Role));
    const group = spell(properties.LoggingConfig.LogGroup).slice(1, -1);
    const [, logs] = resourcesOf(deployed, 'AWS::Logs::LogGroup').find(([id]) => id === group) ?? [];
    expect(logs?.Properties.RetentionInDays).toBe(90);
    const writing = statements.filter(({ actions }) => actions.some((action) => action.startsWith('logs:')));
    expect(writing.map(({ resources }) => resources)).toEqual([[`<${group}.Arn>`]]);
  });

  it('gets the name of the table', () => {
    expect(spell(Environment.Variables.HOLDFAST_TABLE)).toMatch(/^<LocksTable\w+>$/);
  });

  it('may do to the table only what its code does', () => {
    const own = statements.filter(
      ({ actions, resources }) =>
        actions.some((action) => action.startsWith('dynamodb:')) && !resources.some((arn) => arn.includes('StreamArn')),
    );
    const { items, queries, leadingKeys } = tableAccess[name];
    const allowed = own.flatMap(({ actions, resources }) =>
      resources.flatMap((arn) => actions.map((action) => `${action} ${arn.replace(/<LocksTable\w+\.Arn>/, '')}`)),
    );
    expect(allowed.sort()).toEqual(
      [
        ...items.map((action) => `dynamodb:${action} `),
        ...queries.map((index) => `dynamodb:Query /index/${tableShape.indexes[index].name}`),
      ].sort(),
    );
    const condition = leadingKeys && { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': leadingKeys } };
    for (const { conditions, resources } of own) {
      expect(conditions).toEqual(resources[0]?.endsWith('by-session') ? undefined : condition);
    }
  });

  it('is allowed no action by wildcard, and no resource but those that cannot be named', () => {
    const stars = statements
      .flatMap(({ actions, resources }) => [...actions, ...resources])
      .filter((text) => text.includes('*'));
    const connections = /\/v1\/POST\/@connections\/\*$/;
    const posting = { publisher: [connections], acquire: [connections], http: [connections], reaper: [connections] };
    const unnameable = { notifier: [/stateMachine:\*$/, connections], ...posting }[name as string] ?? [];
    for (const star of stars)
      expect(
        unnameable.some((pattern) => pattern.test(star)),
        star,
      ).toBe(true);
    expect(stars).toHaveLength(unnameable.length);
  });
});

describe('the functions', () => {
  const variables = (name: string, template = deployed) => functionOf(name, template).Environment.Variables;

  it("get each other's addresses from what the stack made", () => {
    expect(spell(variables('notifier').HOLDFAST_BUS)).toMatch(/^<LocksNotificationsBus\w+>$/);
    expect(variables('publisher').HOLDFAST_EVENTS_BUS).toBeUndefined();
    expect(spell(variables('notifier').HOLDFAST_TIMER_QUEUE_URL)).toMatch(/^<LocksExpiryTimers\w+>$/);
    expect(spell(variables('reaper').HOLDFAST_TIMER_QUEUE_URL)).toMatch(/^<LocksExpiryTimers\w+>$/);
    expect(spell(variables('notifier').HOLDFAST_WEBSOCKET_ENDPOINT)).toMatch(/^https:\/\/<LocksWatchApi\w+>\..*\/v1$/);
    expect(spell(variables('http').HOLDFAST_WEBSOCKET_URL)).toMatch(/^wss:\/\/<LocksWatchApi\w+>\..*\/v1$/);
  });

  it('end before API Gateway gives up on them', () => {
    expect(functionOf('acquire').Timeout).toBe(29);
    expect(functionOf('http').Timeout).toBe(29);
    expect(functionOf('websocket').Timeout).toBeLessThan(29);
  });

  it('take limits from the stack, and refuse those that the contract does not allow', () => {
    const template = templateOf(
      createStack({
        retention: Duration.days(90),
        poll: Duration.seconds(10),
        leaseMax: Duration.minutes(5),
        waitMax: Duration.minutes(1),
        memorySizeMb: 1_024,
        reservedConcurrency: { acquire: 200, http: 50 },
      }),
    );
    for (const name of ['acquire', 'http']) {
      expect(variables(name, template), name).toMatchObject({
        HOLDFAST_RETENTION_MS: '7776000000',
        HOLDFAST_POLL_MS: '10000',
        HOLDFAST_LEASE_MS_MAX: '300000',
        HOLDFAST_WAIT_MS_MAX: '60000',
      });
    }
    expect(variables('reaper', template).HOLDFAST_RETENTION_MS).toBe('7776000000');
    expect(functionOf('acquire', template)).toMatchObject({ MemorySize: 1_024, ReservedConcurrentExecutions: 200 });
    expect(functionOf('http', template)).toMatchObject({ MemorySize: 1_024, ReservedConcurrentExecutions: 50 });
    expect(() => createStack({ leaseMax: Duration.days(2) })).toThrow('leaseMax must be from 1000 to 86400000 ms');
    // A shorter one could collect a lock that is held.
    expect(() => createStack({ retention: Duration.hours(47) })).toThrow('retention must be at least 172800000 ms');
    expect(() => createStack({ poll: Duration.seconds(29) })).toThrow('poll must be from 0 to 25000 ms');
    expect(() => createStack({ waitMax: Duration.minutes(16) })).toThrow('waitMax must be from 0 to 900000 ms');
  });

  it('take the smallest and the greatest value that a setting may have', () => {
    for (const [poll, leaseMax] of [
      [0, 1_000],
      [25_000, 86_400_000],
    ] as const) {
      const template = templateOf(createStack({ poll: Duration.millis(poll), leaseMax: Duration.millis(leaseMax) }));
      expect(variables('acquire', template)).toMatchObject({
        HOLDFAST_POLL_MS: String(poll),
        HOLDFAST_LEASE_MS_MAX: String(leaseMax),
      });
    }
  });

  it('know the namespaces that have their own metrics, and refuse one that no namespace can be called', () => {
    const template = templateOf(createStack({ metricNamespaces: ['orders', 'payments'] }));
    for (const name of functionNames) {
      expect(variables(name, template).HOLDFAST_METRIC_NAMESPACES, name).toBe('orders,payments');
    }
    expect(() => createStack({ metricNamespaces: ['orders,payments'] })).toThrow('A namespace must be');
  });

  it('reserve no concurrency by default, since that takes from the rest of the account', () => {
    for (const name of functionNames) expect(functionOf(name).ReservedConcurrentExecutions, name).toBeUndefined();
  });
});
