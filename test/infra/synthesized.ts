import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App, CfnWaitConditionHandle, type Environment, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { functionNames } from '../../infra/function-code.ts';
import type { LockServiceProps } from '../../infra/lock-service.ts';
import { HoldfastStack } from '../../infra/stack.ts';

/** For everything that the tests of this process write, bundles and templates. It is deleted when the process ends. */
const folder = mkdtempSync(join(tmpdir(), 'holdfast-infra-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

export const freshFolder = (): string => mkdtempSync(join(folder, 'fresh-'));

/** Templates do not depend on the code of functions, so these tests need not bundle it. */
const functionsFolder = freshFolder();
for (const name of functionNames) {
  mkdirSync(join(functionsFolder, name));
  writeFileSync(join(functionsFolder, name, 'index.mjs'), `export const handler = () => ${JSON.stringify(name)};\n`);
}

/** `validated`: also checked by CloudFormation's own schema. That takes seconds, so once is enough. */
export const createApp = ({ validated = false } = {}): App =>
  new App({
    outdir: freshFolder(),
    context: JSON.parse(readFileSync(new URL('../../cdk.json', import.meta.url), 'utf8')).context,
    builtinCloudFormationValidation: validated,
    treeMetadata: false,
    analyticsReporting: false,
  });

type Given = LockServiceProps | ((scope: Stack) => LockServiceProps);

function createOutside(app: App, env: Environment): Stack {
  const outside = new Stack(app, 'Outside', { env });
  // CloudFormation refuses a stack without resources, and the CDK warns about it.
  new CfnWaitConditionHandle(outside, 'Something');
  return outside;
}

/** The stack alone. If a variant needs something from outside, such as a certificate, it is in another stack. */
export function createStack(given: Given = {}, env: Environment = {}, app = createApp()): HoldfastStack {
  const props = typeof given === 'function' ? given(createOutside(app, env)) : given;
  return new HoldfastStack(app, 'Holdfast', { env, service: { functionsFolder, ...props } });
}

export interface Resource {
  readonly Type: string;
  // biome-ignore lint/suspicious/noExplicitAny: a template is whatever CloudFormation takes.
  readonly Properties: any;
  readonly DeletionPolicy?: string;
  readonly UpdateReplacePolicy?: string;
}

export const templateOf = (stack: HoldfastStack): Template => Template.fromStack(stack);

export const resourcesOf = (template: Template, type: string): [string, Resource][] =>
  Object.entries(template.findResources(type)) as [string, Resource][];

/** An intrinsic function as one string, with references by logical id in `<…>`. */
export function spell(value: unknown): string {
  if (typeof value === 'string') return value;
  const { Ref, 'Fn::GetAtt': attribute, 'Fn::Join': join } = value as Record<string, unknown>;
  if (typeof Ref === 'string') return `<${Ref}>`;
  if (Array.isArray(attribute)) return `<${attribute.join('.')}>`;
  if (Array.isArray(join)) return (join[1] as unknown[]).map(spell).join(join[0] as string);
  return JSON.stringify(value);
}

export interface Statement {
  readonly actions: string[];
  readonly resources: string[];
  readonly conditions: unknown;
}

const listOf = <T>(value: T | T[]): T[] => (Array.isArray(value) ? value : [value]);

/** The statements of the policy whose logical id contains the given text. */
export function statementsOf(template: Template, policy: string): Statement[] {
  const found = resourcesOf(template, 'AWS::IAM::Policy').filter(([id]) => id.includes(policy));
  if (found.length !== 1)
    throw new Error(`Expected one policy like ${policy}, found ${found.map(([id]) => id).join(', ') || 'none'}.`);
  return found.flatMap(([, { Properties }]) =>
    Properties.PolicyDocument.Statement.map(
      (statement: { Action: string | string[]; Resource: unknown; Condition?: unknown }) => ({
        actions: listOf(statement.Action),
        resources: listOf(statement.Resource).map(spell),
        conditions: statement.Condition,
      }),
    ),
  );
}
