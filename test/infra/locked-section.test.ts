import validate from 'asl-validator';
import { App, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import { Alias, Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { DefinitionBody, JsonPath, Pass, StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { describe, expect, it } from 'vitest';
import { LockedSection, type LockedSectionProps, type LockServiceProps } from '../../infra/lock-service.ts';
import { definitionIn } from '../support/state-machine.ts';
import { createApp, createStack, statementsOf } from './synthesized.ts';

type Given = Partial<LockedSectionProps>;

function sectionIn(stack: ReturnType<typeof createStack>, given: Given = {}): LockedSection {
  return new LockedSection(stack, 'Debit', {
    locks: stack.locks,
    namespace: 'payments',
    lock: 'wallet:42',
    lease: Duration.minutes(10),
    work: new Pass(stack, 'Debited'),
    ...given,
  });
}

function machineIn(given: Given = {}, props: LockServiceProps = {}): Stack {
  const stack = createStack(props);
  const definitionBody = DefinitionBody.fromChainable(sectionIn(stack, given));
  new StateMachine(stack, 'Machine', { definitionBody });
  return stack;
}

/** The states of the section by the last word of their names. */
const statesOf = (definition: Record<string, unknown>): Record<string, Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(definition.States as Record<string, Record<string, unknown>>).map(([name, state]) => [
      name.split(/\W+/).at(-1),
      state,
    ]),
  );

describe('LockedSection', () => {
  it('is a definition that Step Functions takes', () => {
    const { isValid, errorsText } = validate(definitionIn(machineIn()) as never);
    expect(isValid, errorsText('\n')).toBe(true);
  });

  it('takes a name from the input, and renewals between the states of the work', () => {
    const stack = createStack();
    const section = sectionIn(stack, {
      lock: JsonPath.stringAt('$.wallet'),
      work: (renew) =>
        new Pass(stack, 'First').next(renew('Renew', Duration.minutes(20))).next(new Pass(stack, 'Second')),
    });
    new StateMachine(stack, 'Machine', { definitionBody: DefinitionBody.fromChainable(section) });
    const definition = definitionIn(stack);
    expect(validate(definition as never).isValid).toBe(true);
    const text = JSON.stringify(definition);
    expect(text).toContain("States.Format('/v1/payments/locks/{}/acquire', $.wallet)");
    expect(text).toContain('"RequestBody":{"leaseId.$":"$.lock.leaseId","leaseMs":1200000}');
  });

  it('waits for its task longer than the service keeps the place, and asks under another lease with each try', () => {
    const { Acquire } = statesOf(definitionIn(machineIn({ lock: 'a+b', wait: Duration.hours(1) })));
    expect(Acquire).toMatchObject({
      TimeoutSeconds: 3_600 + 300,
      Parameters: {
        Path: '/v1/payments/locks/a%2Bb/acquire',
        RequestBody: {
          'leaseId.$': "States.Hash($$.Task.Token, 'SHA-256')",
          waitMs: 3_600_000,
          notify: { type: 'task-token', always: true },
        },
      },
    });
  });

  it('fails if the lease was over before its release, and succeeds if only the release fails', () => {
    const { Release } = statesOf(definitionIn(machineIn()));
    expect(Release?.Catch).toMatchObject([
      { ErrorEquals: ['ApiGateway.409'], Next: expect.stringContaining('LeaseLost') },
      { ErrorEquals: ['States.ALL'], Next: expect.stringContaining('Output') },
    ]);
  });

  it('lets the state machine use locks of its namespace, and nothing else of the service', () => {
    const opened = statementsOf(Template.fromStack(machineIn()), 'MachineRole').filter(({ actions }) =>
      actions.includes('execute-api:Invoke'),
    );
    const resources = opened.flatMap((statement) => statement.resources);
    expect(resources).toHaveLength(2);
    for (const resource of resources) expect(resource).toMatch(/POST\/v1\/payments\/locks\/\?\*\/(acquire|release)$/);
  });

  it('says why it cannot work with tokens, or with its own domain', () => {
    const jwt = { issuer: 'https://issuer.example.com', audience: ['locks'] };
    expect(() => sectionIn(createStack({ jwt }))).toThrow(/takes tokens \(jwt\)/);
    const withDomain = createStack((outside) => ({
      domain: {
        name: 'locks.example.com',
        certificate: Certificate.fromCertificateArn(
          outside,
          'Certificate',
          'arn:aws:acm:eu-west-1:123456789012:certificate/1',
        ),
      },
    }));
    expect(() => sectionIn(withDomain)).toThrow(/switched off if the service has its own domain/);
  });

  it.each([
    [{ lease: Duration.days(2) }, /lease must be from 1000 to 86400000 ms/],
    [{ wait: Duration.days(2) }, /wait must be from 1 to 86400000 ms/],
    [{ namespace: 'No' }, /A namespace must be/],
  ] as [Given, RegExp][])('refuses %j when the stack is written', (given, why) => {
    expect(() => sectionIn(createStack(), given)).toThrow(why);
  });
});

describe('callbacks of durable functions', () => {
  const arn = 'arn:aws:lambda:eu-west-1:123456789012:function:settle';
  const allowed = (stack: Stack) => {
    const statements = Object.values(Template.fromStack(stack).findResources('AWS::IAM::Policy')).flatMap(
      ({ Properties }) => Properties.PolicyDocument.Statement as { Action: unknown; Resource: unknown }[],
    );
    return statements.filter(({ Action }) => JSON.stringify(Action).includes('SendDurableExecutionCallback'));
  };
  const functionIn = (stack: Stack) => LambdaFunction.fromFunctionArn(stack, 'Settle', arn);

  it('may be completed for the functions that are named, in each of their versions', () => {
    const outside = new Stack(new App(), 'Outside');
    const expected = [
      {
        Action: ['lambda:SendDurableExecutionCallbackFailure', 'lambda:SendDurableExecutionCallbackSuccess'],
        Effect: 'Allow',
        Resource: `${arn}:*`,
      },
    ];
    expect(allowed(createStack({ durableFunctions: [functionIn(outside)] }))).toEqual(expected);
    const granted = createStack({}, {}, createApp());
    granted.locks.grantCallbacks(functionIn(granted));
    expect(allowed(granted)).toEqual(expected);
    const byAlias = createStack({}, {}, createApp());
    byAlias.locks.grantCallbacks(
      Alias.fromAliasAttributes(byAlias, 'Live', {
        aliasName: 'live',
        aliasVersion: { lambda: functionIn(byAlias) } as never,
      }),
    );
    expect(allowed(byAlias)).toEqual(expected);
  });

  it('may be completed for nobody else', () => {
    expect(allowed(createStack())).toEqual([]);
  });
});
