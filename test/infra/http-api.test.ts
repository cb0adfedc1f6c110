import type { Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import { HostedZone } from 'aws-cdk-lib/aws-route53';
import { describe, expect, it } from 'vitest';
import { type Route, routes } from '../../src/contract/operations.ts';
import { operationOf } from '../../src/http/api-gateway.ts';
import { openApiDocument } from '../../src/http/openapi.ts';
import { handlers } from '../../src/http/operations.ts';
import { createStack, resourcesOf, spell, templateOf } from './synthesized.ts';

const table: readonly Route[] = routes;
const deployed = templateOf(createStack());

/** Routes of the HTTP API by key. Routes of the WebSocket API begin with `$`, and only `$connect` has an authorizer. */
const httpRoutes = (template: Template): Map<string, Record<string, unknown>> =>
  new Map(
    resourcesOf(template, 'AWS::ApiGatewayV2::Route')
      .filter(([id]) => id.includes('HttpApi'))
      .map(([, { Properties }]) => [Properties.RouteKey as string, Properties]),
  );

const keyOf = ({ method, path }: Route): string => `${method} ${path}`;

describe('the HTTP API', () => {
  it('has exactly the routes of the route table, and one for all else', () => {
    expect([...httpRoutes(deployed).keys()].sort()).toEqual([...table.map(keyOf), '$default'].sort());
  });

  it('deploys the routes that the handler and the OpenAPI document have', () => {
    const described = Object.entries(openApiDocument('0').paths as Record<string, Record<string, unknown>>).flatMap(
      ([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const explicit = [...httpRoutes(deployed).keys()].filter((key) => key !== '$default');
    expect(described.sort()).toEqual(explicit.sort());
    for (const key of explicit) expect(handlers[operationOf(key) ?? ('none' as never)], key).toBeTypeOf('function');
  });

  it('asks for IAM on every route, the public ones and the missing ones included', () => {
    for (const [key, { AuthorizationType }] of httpRoutes(deployed)) expect(AuthorizationType, key).toBe('AWS_IAM');
  });

  it('opens only the public routes, and only on request', () => {
    const open = [...httpRoutes(templateOf(createStack({ openPublicRoutes: true })))]
      .filter(([, { AuthorizationType }]) => AuthorizationType === 'NONE')
      .map(([key]) => key);
    expect(open.sort()).toEqual(
      table
        .filter(({ access }) => access === 'public')
        .map(keyOf)
        .sort(),
    );
  });

  it('takes tokens of one issuer, with the scope that a route is for', () => {
    const template = templateOf(
      createStack({
        jwt: {
          issuer: 'https://issuer.example.com',
          audience: ['holdfast'],
          scopes: { inspect: ['locks/inspect'], use: ['locks/use'], admin: ['locks/admin'] },
          namespacesClaim: 'locks:namespaces',
        },
      }),
    );
    const [authorizer] = resourcesOf(template, 'AWS::ApiGatewayV2::Authorizer');
    expect(authorizer?.[1].Properties).toMatchObject({
      AuthorizerType: 'JWT',
      JwtConfiguration: { Audience: ['holdfast'], Issuer: 'https://issuer.example.com' },
    });
    const found = httpRoutes(template);
    for (const [key, { AuthorizationType }] of found) expect(AuthorizationType, key).toBe('JWT');
    const connecting = resourcesOf(template, 'AWS::ApiGatewayV2::Route').filter(
      ([, { Properties }]) => Properties.RouteKey === '$connect',
    );
    // A token can't be sent there. The function asks for a ticket.
    expect(connecting.map(([, { Properties }]) => Properties.AuthorizationType)).toEqual(['NONE']);
    const scopes = { inspect: ['locks/inspect'], use: ['locks/use'], admin: ['locks/admin'], public: undefined };
    for (const route of table) {
      expect(found.get(keyOf(route))?.AuthorizationScopes, keyOf(route)).toEqual(scopes[route.access]);
    }
  });

  it.each(['inspect', 'use', 'admin'])('refuses scopes that leave %s open', (right) => {
    const all = { inspect: ['locks/inspect'], use: ['locks/use'], admin: ['locks/admin'] };
    const jwt = { issuer: 'https://issuer.example.com', audience: ['holdfast'] };
    const { [right as 'use']: _, ...rest } = all;
    expect(() => createStack({ jwt: { ...jwt, scopes: rest as typeof all } })).toThrow(`jwt.scopes.${right}`);
    expect(() => createStack({ jwt: { ...jwt, scopes: { ...all, [right]: [] } } })).toThrow(`jwt.scopes.${right}`);
  });

  it('says to the functions that answer which claim lists the namespaces of a token', () => {
    const jwt = { issuer: 'https://issuer.example.com', audience: ['holdfast'], namespacesClaim: 'locks:namespaces' };
    const claims = resourcesOf(templateOf(createStack({ jwt })), 'AWS::Lambda::Function').map(
      ([id, { Properties }]) => [
        /Locks(Acquire|Http)Function/.test(id),
        Properties.Environment.Variables.HOLDFAST_NAMESPACES_CLAIM,
      ],
    );
    for (const [answers, claim] of claims) expect(claim).toBe(answers ? 'locks:namespaces' : undefined);
    expect(claims.filter(([answers]) => answers)).toHaveLength(2);
  });

  it('runs waiters on their own function, so that they cannot use the concurrency of releases', () => {
    const functionsBy = new Map(
      resourcesOf(deployed, 'AWS::ApiGatewayV2::Integration').map(([id, { Properties }]) => [
        id,
        spell(Properties.IntegrationUri),
      ]),
    );
    for (const [key, { Target }] of httpRoutes(deployed)) {
      const integration = /<(\w+)>$/.exec(spell(Target))?.[1] ?? '';
      const expected = key.endsWith('/acquire') ? 'LocksAcquireFunction' : 'LocksHttpFunction';
      expect(functionsBy.get(integration), key).toContain(expected);
    }
  });

  it('refuses an IAM grant if the service takes tokens', () => {
    const { locks } = createStack({ jwt: { issuer: 'https://issuer.example.com', audience: ['a'] } });
    expect(() => locks.grantUse(locks.http.role, { namespace: 'orders' })).toThrow('give the token a scope');
  });

  const accessLogOf = (template: typeof deployed): string => {
    const [, stage] = resourcesOf(template, 'AWS::ApiGatewayV2::Stage').find(([id]) => id.includes('HttpApi')) ?? [];
    return stage?.Properties.AccessLogSettings.Format;
  };

  it('logs who called: the principal of IAM, or the subject of a token', () => {
    expect(JSON.parse(accessLogOf(deployed))).toMatchObject({ principal: '$context.identity.userArn' });
    const jwt = { issuer: 'https://issuer.example.com', audience: ['a'] };
    const format = JSON.parse(accessLogOf(templateOf(createStack({ jwt }))));
    expect(format).toMatchObject({ subject: '$context.authorizer.claims.sub' });
    expect(format).not.toHaveProperty('principal');
  });

  it('logs by route, so that no session id, query or body gets into a log', () => {
    const Format = accessLogOf(deployed);
    expect(JSON.parse(Format)).toMatchObject({ route: '$context.routeKey', requestId: '$context.requestId' });
    expect(Format).not.toMatch(/\$context\.(path|http\.path|requestOverride|customDomain|domainName)/i);
    expect(Format).not.toMatch(/query|header|authorization/i);
  });

  it('is throttled, and answers under no stage name', () => {
    const [, stage] = resourcesOf(deployed, 'AWS::ApiGatewayV2::Stage').find(([id]) => id.includes('HttpApi')) ?? [];
    expect(stage?.Properties).toMatchObject({
      StageName: '$default',
      AutoDeploy: true,
      DefaultRouteSettings: { ThrottlingRateLimit: 2_000, ThrottlingBurstLimit: 1_000 },
    });
  });

  it('is throttled as asked, the WebSocket API too', () => {
    const stages = resourcesOf(templateOf(createStack({ throttle: { burst: 50 } })), 'AWS::ApiGatewayV2::Stage');
    expect(stages.map(([, { Properties }]) => Properties.DefaultRouteSettings)).toEqual(
      stages.map(() => ({ ThrottlingRateLimit: 2_000, ThrottlingBurstLimit: 50 })),
    );
    expect(stages).toHaveLength(2);
  });

  it('lets API Gateway call its function by two permissions, however many routes there are', () => {
    const sources = resourcesOf(deployed, 'AWS::Lambda::Permission')
      .filter(([, { Properties }]) => spell(Properties.FunctionName).includes('LocksHttpFunction'))
      .map(([, { Properties }]) => spell(Properties.SourceArn).replace(/^arn:.*<LocksHttpApi\w+>/, ''));
    // IAM's `*` matches slashes, but the slashes must be there: `/stage/$default` needs its own permission.
    expect(sources.sort()).toEqual(['/$default/$default', '/*/*/*']);
  });

  const domainIn = (outside: Stack) => ({
    name: 'locks.example.com',
    certificate: Certificate.fromCertificateArn(
      outside,
      'Certificate',
      'arn:aws:acm:us-east-1:111122223333:certificate/abc',
    ),
  });

  it('makes no DNS record unless it is given a zone', () => {
    const template = templateOf(createStack((outside) => ({ domain: domainIn(outside) })));
    expect(resourcesOf(template, 'AWS::ApiGatewayV2::DomainName')).toHaveLength(1);
    expect(resourcesOf(template, 'AWS::Route53::RecordSet')).toEqual([]);
  });

  it('answers on its own domain, and then on no other', () => {
    const template = templateOf(
      createStack((outside) => ({
        domain: {
          ...domainIn(outside),
          hostedZone: HostedZone.fromHostedZoneAttributes(outside, 'Zone', {
            hostedZoneId: 'Z1',
            zoneName: 'example.com',
          }),
        },
      })),
    );
    template.hasResourceProperties('AWS::ApiGatewayV2::DomainName', { DomainName: 'locks.example.com' });
    template.hasResourceProperties('AWS::ApiGatewayV2::ApiMapping', { Stage: '$default' });
    template.hasResourceProperties('AWS::Route53::RecordSet', { Name: 'locks.example.com.', Type: 'A' });
    template.hasResourceProperties('AWS::ApiGatewayV2::Api', { ProtocolType: 'HTTP', DisableExecuteApiEndpoint: true });
    expect(template.toJSON().Outputs.Url.Value).toBe('https://locks.example.com');
  });
});

describe('the WebSocket API', () => {
  it('asks for IAM when a watcher connects', () => {
    const found = resourcesOf(deployed, 'AWS::ApiGatewayV2::Route').filter(([id]) => id.includes('Watch'));
    expect(
      Object.fromEntries(found.map(([, { Properties }]) => [Properties.RouteKey, Properties.AuthorizationType])),
    ).toEqual({
      $connect: 'AWS_IAM',
      $disconnect: 'NONE',
      $default: 'NONE',
    });
  });

  it('answers every message of a watcher', () => {
    const [, fallback] =
      resourcesOf(deployed, 'AWS::ApiGatewayV2::Route').find(
        ([, { Properties }]) =>
          Properties.RouteKey === '$default' && Properties.RouteResponseSelectionExpression !== undefined,
      ) ?? [];
    expect(fallback?.Properties.RouteResponseSelectionExpression).toBe('$default');
    expect(resourcesOf(deployed, 'AWS::ApiGatewayV2::RouteResponse')).toHaveLength(1);
  });
});
