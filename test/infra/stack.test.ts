import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { createStack, spell, templateOf } from './synthesized.ts';

const isReference = (value: object): boolean => /^(Ref|Fn::GetAtt|Fn::Join)$/.test(Object.keys(value).join());

/** So that a reviewer reads a reference in one line and not in five, and a dashboard with one line for each widget. */
function spellReferences(name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !isReference(value)) return value;
  return name === 'DashboardBody' ? spell(value).split(/(?=\{"type")/) : spell(value);
}

describe('the stack', () => {
  const deployed = templateOf(createStack()).toJSON();

  it('tells its callers where it is', () => {
    expect(Object.keys(deployed.Outputs).sort()).toEqual(['EventBusName', 'Sdk', 'TableName', 'Url', 'WatchUrl']);
  });

  it('is the one that was reviewed', () => {
    // The content of a bundle changes with every commit. Here it only matters that it is deployed.
    const masked = JSON.parse(JSON.stringify(deployed, spellReferences).replaceAll(/[0-9a-f]{64}/g, '<asset>'));
    const whole = { depth: null, breakLength: 120, maxArrayLength: null, maxStringLength: null };
    expect(inspect(masked, whole)).toMatchSnapshot();
  });

  it('needs no account, Region or lookup to be written', () => {
    expect(JSON.stringify(deployed)).not.toMatch(/dummy-value|cdk-hnb659fds-lookup/);
  });

  it('shows how to make a client: with IAM, or with a token', () => {
    const sdkOf = (given: Parameters<typeof createStack>[0]) =>
      spell(templateOf(createStack(given)).toJSON().Outputs.Sdk.Value);
    expect(sdkOf({})).toMatch(/^import { Holdfast, sigv4 } from 'holdfast'; .*auth: sigv4\(\) }\);$/);
    const jwt = { issuer: 'https://issuer.example.com', audience: ['locks'] };
    expect(sdkOf({ jwt })).toMatch(/^import { Holdfast, bearer } from 'holdfast'; .*auth: bearer\(token\) }\);$/);
  });

  it('gives its parts to the stack of the user, who may add alarms and permissions', () => {
    const { locks } = createStack();
    const parts = [locks.acquire, locks.http, locks.websocket, locks.expiry, locks.notifications, locks.monitoring];
    expect(parts.map((part) => part?.node.id)).toEqual([
      'Acquire',
      'Http',
      'Websocket',
      'Expiry',
      'Notifications',
      'Monitoring',
    ]);
    expect(createStack({ monitoring: false }).locks.monitoring).toBeUndefined();
  });

  it('tells only the name of the table if there is nothing else', () => {
    expect(Object.keys(templateOf(createStack({ tableOnly: true })).toJSON().Outputs)).toEqual(['TableName']);
  });
});
