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
import { type Operation, routes } from '../src/contract/operations.ts';
import type { DomainProps, JwtProps, ThrottleProps } from './props.ts';

export interface LockHttpApiProps {
  /** For the routes where callers wait. */
  readonly acquire: IFunction;
  /** For all others, and for what has no route. */
  readonly handler: IFunction;
  readonly jwt?: JwtProps | undefined;
  readonly openPublicRoutes: boolean;
  readonly throttle: Required<ThrottleProps>;
  readonly domain?: DomainProps | undefined;
  readonly logRetention: RetentionDays;
}

/**
 * By route, not by path: a path carries session ids, which are secrets, and a query string may carry anything.
 * The request id is the one that the caller got in `x-request-id`, and that the function logs.
 */
const accessLogFields = {
  requestId: '$context.requestId',
  at: '$context.requestTime',
  route: '$context.routeKey',
  status: '$context.status',
  protocol: '$context.protocol',
  sourceIp: '$context.identity.sourceIp',
  principal: '$context.identity.userArn',
  subject: '$context.authorizer.claims.sub',
  tookMs: '$context.responseLatency',
  functionMs: '$context.integrationLatency',
  responseBytes: '$context.responseLength',
  refused: '$context.error.message',
  functionError: '$context.integrationErrorMessage',
};

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

/** One explicit route for each operation of the contract, and `$default` so that a missing one is answered as a problem too. */
export class LockHttpApi extends Construct {
  readonly api: HttpApi;
  readonly stage: HttpStage;
  readonly accessLogs: LogGroup;
  readonly domainName: DomainName | undefined;
  /** Tokens instead of IAM. */
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
    // One permission for the whole API: one for each route would outgrow a function's policy.
    const oncePermitted = { scopePermissionToRoute: false };
    const integration = new HttpLambdaIntegration('Function', props.handler, oncePermitted);
    // A long poll occupies its function for up to 20 seconds. On a function of their own, waiters can't take the room of releases.
    const waiting = new HttpLambdaIntegration('AcquireFunction', props.acquire, oncePermitted);
    this.api = new HttpApi(this, 'Api', {
      description: 'Holdfast: locks, sessions and records',
      createDefaultStage: false,
      defaultAuthorizer: authorizer,
      defaultIntegration: integration,
      // With a domain of its own the service has one name, and policies on that name can't be walked around.
      disableExecuteApiEndpoint: props.domain !== undefined,
    });
    // That permission names a method and a path, which the route for all else has not.
    props.handler.addPermission('CallByDefaultRoute', {
      principal: new ServicePrincipal('apigateway.amazonaws.com'),
      sourceArn: Stack.of(this).formatArn({
        service: 'execute-api',
        resource: this.api.apiId,
        resourceName: '$default/$default',
      }),
    });
    for (const route of routes) {
      const open = route.access === 'public' && props.openPublicRoutes;
      const scopes = open || route.access === 'public' ? undefined : props.jwt?.scopes?.[route.access];
      this.api.addRoutes({
        path: route.path,
        methods: [route.method as HttpMethod],
        integration: isAcquire(route) ? waiting : integration,
        authorizer: open ? new HttpNoneAuthorizer() : authorizer,
        ...(scopes === undefined ? {} : { authorizationScopes: [...scopes] }),
      });
    }
    this.accessLogs = new LogGroup(this, 'AccessLogs', {
      // Under this prefix API Gateway needs no entry in the account's log policy, which has room for few.
      logGroupName: `/aws/vendedlogs/holdfast/${Names.uniqueResourceName(this, { maxLength: 100 })}`,
      retention: props.logRetention,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    this.domainName = props.domain && this.#createDomain(props.domain);
    this.stage = new HttpStage(this, 'Stage', {
      httpApi: this.api,
      // A named stage would stand in front of every path.
      stageName: '$default',
      autoDeploy: true,
      throttle: { rateLimit: props.throttle.ratePerSecond, burstLimit: props.throttle.burst },
      accessLogSettings: {
        destination: new LogGroupLogDestination(this.accessLogs),
        format: AccessLogFormat.custom(JSON.stringify(accessLogFields)),
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
