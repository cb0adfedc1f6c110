import type { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';

/** The definition of the one state machine of a stack. Values that only a deployment knows are replaced by names. */
export function definitionIn(stack: Stack): Record<string, unknown> {
  const machines = Object.values(Template.fromStack(stack).findResources('AWS::StepFunctions::StateMachine'));
  const text = filledIn((machines[0] as { Properties: { DefinitionString: unknown } }).Properties.DefinitionString);
  return JSON.parse(text) as Record<string, unknown>;
}

const known: Readonly<Record<string, string>> = {
  'AWS::Partition': 'aws',
  'AWS::Region': 'eu-west-1',
  'AWS::AccountId': '123456789012',
  'AWS::URLSuffix': 'amazonaws.com',
};

function filledIn(value: unknown): string {
  if (typeof value === 'string') return value;
  const { Ref, ...functions } = value as { Ref?: string; 'Fn::Join'?: [string, unknown[]] };
  if (Ref !== undefined) return known[Ref] ?? Ref;
  const [separator, parts] = functions['Fn::Join'] ?? ['', ['unknown']];
  return parts.map(filledIn).join(separator);
}
