import { Names, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { AccessLogFormat } from 'aws-cdk-lib/aws-apigateway';
import {
  DomainName,
  HttpApi,
  type HttpMethod,
  HttpNoneAuthorizer,
  HttpStage,
  type IHttpRouteAuthorizer,
  LogGroupLogDestination,
} from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpIamAuthorizer, HttpJwtAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2-authorizers';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import { ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import { ARecord, RecordTarget } from 'aws-cdk-lib/aws-route53';
import { ApiGatewayv2DomainProperties } from 'aws-cdk-lib/aws-route53-targets';
import { Construct } from 'constructs';
import { type Access, type Operation, routes } from '../src/contract/operations.ts';
import type { DomainProps, JwtProps, ThrottleProps } from './props.ts';

export interface LockHttpApiProps {
  /** For the routes where callers wait. */
  readonly acquire: IFunction;
  /** For all other routes, and for requests without a route. */
  readonly handler: IFunction;
  readonly jwt?: JwtProps | undefined;
  readonly openPublicRoutes: boolean;
  readonly throttle: Required<ThrottleProps>;
  readonly domain?: DomainProps | undefined;
  readonly logRetention: RetentionDays;
}

/**
 * The log names the route, not the path: a path may contain a session id, which is secret, and a query string may
 * contain anything. The caller gets the same request id in `x-request-id`, and the function logs it. A line is written
 * for every request and billed by its length, so it has only what somebody looks for.
 */
const accessLogFields = (takesTokens: boolean) => ({
  requestId: '$context.requestId',
  at: '$context.requestTime',
  route: '$context.routeKey',
  status: '$context.status',
  sourceIp: '$context.identity.sourceIp',
  ...(takesTokens ? { subject: '$context.authorizer.claims.sub' } : { principal: '$context.identity.userArn' }),
  tookMs: '$context.responseLatency',
  functionMs: '$context.integrationLatency',
  refused: '$context.error.message',
  functionError: '$context.integrationErrorMessage',
});

/** A right without a scope would be open to every token. */
function checkScopes(jwt: JwtProps | undefined): void {
  if (jwt?.scopes === undefined) return;
  for (const right of ['inspect', 'use', 'admin'] as const) {
    if ((jwt.scopes[right] ?? []).length === 0)
      throw new Error(
        `jwt.scopes.${right} must name at least one scope: without one, every token would have that right.`,
      );
  }
}

const isAcquire = ({ operation }: { readonly operation: Operation }): boolean =>
  operation === 'acquireLock' || operation === 'acquireLocks';

/**
 * One explicit route for each operation of the contract. `$default` answers requests without a route as a problem too.
 */
export class LockHttpApi extends Construct {
  readonly api: HttpApi;
  readonly stage: HttpStage;
  readonly accessLogs: LogGroup;
  readonly domainName: DomainName | undefined;
  /** True if callers send tokens instead of IAM signatures. */
  readonly takesTokens: boolean;
  /** Without a slash at the end. */
  readonly url: string;

  constructor(scope: Construct, id: string, props: LockHttpApiProps) {
    super(scope, id);
    checkScopes(props.jwt);
    this.takesTokens = props.jwt !== undefined;
    const authorizer: IHttpRouteAuthorizer =
      props.jwt === undefined
        ? new HttpIamAuthorizer()
        : new HttpJwtAuthorizer('Jwt', props.jwt.issuer, { jwtAudience: [...props.jwt.audience] });
    // One permission for the whole API. With one for each route, the function's policy would be too long.
    const oncePermitted = { scopePermissionToRoute: false };
    const integration = new HttpLambdaIntegration('Function', props.handler, oncePermitted);
    // A long poll keeps its function busy for up to 20 seconds. Waiters have their own function, so that they can't use
    // up the concurrency that releases need.
    const waiting = new HttpLambdaIntegration('AcquireFunction', props.acquire, oncePermitted);
    this.api = new HttpApi(this, 'Api', {
      description: 'Holdfast: locks, sessions and records',
      createDefaultStage: false,
      defaultAuthorizer: authorizer,
      defaultIntegration: integration,
      // With its own domain the service has only one name, so policies on that name can't be bypassed.
      disableExecuteApiEndpoint: props.domain !== undefined,
    });
    // The permission above names a method and a path. The default route has neither.
    props.handler.addPermission('CallByDefaultRoute', {
      principal: new ServicePrincipal('apigateway.amazonaws.com'),
      sourceArn: Stack.of(this).formatArn({
        service: 'execute-api',
        resource: this.api.apiId,
        resourceName: '$default/$default',
      }),
    });
    const scopesOf: Partial<Record<Access, readonly string[]>> = props.jwt?.scopes ?? {};
    for (const route of routes) {
      const open = route.access === 'public' && props.openPublicRoutes;
      const scopes = scopesOf[route.access];
      this.api.addRoutes({
        path: route.path,
        methods: [route.method as HttpMethod],
        integration: isAcquire(route) ? waiting : integration,
        authorizer: open ? new HttpNoneAuthorizer() : authorizer,
        ...(scopes === undefined ? {} : { authorizationScopes: [...scopes] }),
      });
    }
    this.accessLogs = new LogGroup(this, 'AccessLogs', {
      // With this prefix, API Gateway needs no entry in the account's log policy, which is limited in length.
      logGroupName: `/aws/vendedlogs/holdfast/${Names.uniqueResourceName(this, { maxLength: 100 })}`,
      retention: props.logRetention,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    this.domainName = props.domain && this.#createDomain(props.domain);
    this.stage = new HttpStage(this, 'Stage', {
      httpApi: this.api,
      // A named stage would be the first segment of every path.
      stageName: '$default',
      autoDeploy: true,
      throttle: { rateLimit: props.throttle.ratePerSecond, burstLimit: props.throttle.burst },
      accessLogSettings: {
        destination: new LogGroupLogDestination(this.accessLogs),
        format: AccessLogFormat.custom(JSON.stringify(accessLogFields(this.takesTokens))),
      },
      ...(this.domainName === undefined ? {} : { domainMapping: { domainName: this.domainName } }),
    });
    this.url = props.domain === undefined ? this.api.apiEndpoint : `https://${props.domain.name}`;
  }

  #createDomain({ name, certificate, hostedZone }: DomainProps): DomainName {
    const domainName = new DomainName(this, 'Domain', { domainName: name, certificate });
    if (hostedZone !== undefined) {
      new ARecord(this, 'Alias', {
        zone: hostedZone,
        recordName: `${name}.`,
        target: RecordTarget.fromAlias(
          new ApiGatewayv2DomainProperties(domainName.regionalDomainName, domainName.regionalHostedZoneId),
        ),
      });
    }
    return domainName;
  }
}
