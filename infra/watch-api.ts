import { type CfnElement, Stack, Validations } from 'aws-cdk-lib';
import { WebSocketApi, WebSocketStage } from 'aws-cdk-lib/aws-apigatewayv2';
import { WebSocketIamAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2-authorizers';
import { WebSocketLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import type { ThrottleProps } from './props.ts';
import type { ServiceFunction } from './service-function.ts';

export interface WatchApiProps {
  readonly handler: IFunction;
  /**
   * True if IAM is required in addition to the ticket. False if callers have tokens, because WebSocket APIs have no JWT
   * authorizer.
   */
  readonly iam: boolean;
  readonly throttle: Required<ThrottleProps>;
}

/**
 * Where callers connect, each with a ticket. API Gateway authorizes only the connecting: everything else on a
 * connection counts as sent by the caller that opened it.
 */
export class WatchApi extends Construct {
  readonly api: WebSocketApi;
  readonly stage: WebSocketStage;

  constructor(scope: Construct, id: string, { handler, iam, throttle }: WatchApiProps) {
    super(scope, id);
    const route = (name: string) => ({ integration: new WebSocketLambdaIntegration(name, handler) });
    this.api = new WebSocketApi(this, 'Api', {
      description: 'Holdfast: waiting and watching',
      connectRouteOptions: { ...route('OnConnect'), ...(iam ? { authorizer: new WebSocketIamAuthorizer() } : {}) },
      disconnectRouteOptions: route('OnDisconnect'),
      // Every message of a client is answered, which keeps a quiet connection open.
      defaultRouteOptions: { ...route('OnMessage'), returnResponse: true },
    });
    this.stage = new WebSocketStage(this, 'Stage', {
      webSocketApi: this.api,
      stageName: 'v1',
      autoDeploy: true,
      throttle: { rateLimit: throttle.ratePerSecond, burstLimit: throttle.burst },
    });
    Validations.of(this.stage).acknowledge({
      id: 'AwsSolutions-APIG1',
      reason:
        'Access logs of WebSocket APIs need a role in the settings of the whole account, which this stack must not change. The function logs each connection.',
    });
    if (!iam) {
      Validations.of(this.api.node.findChild('$connect-Route')).acknowledge({
        id: 'AwsSolutions-APIG4',
        reason: 'The function requires a ticket for one connection. Only a caller with a valid token gets a ticket.',
      });
    }
    for (const name of ['$disconnect', '$default']) {
      const id = `${name}-Route`;
      Validations.of(this.api.node.findChild(id)).acknowledge({
        id: 'AwsSolutions-APIG4',
        reason: 'API Gateway authorizes a WebSocket only when it connects. The other routes can have no authorizer.',
      });
    }
  }

  allowSending(sender: ServiceFunction): void {
    const connections = this.api.arnForExecuteApiV2('POST/@connections/*', this.stage.stageName);
    sender.allow(['execute-api:ManageConnections'], [connections]);
    sender.function.addEnvironment('HOLDFAST_WEBSOCKET_ENDPOINT', this.stage.callbackUrl);
    Validations.of(sender.role).acknowledge({
      id: `AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<${Stack.of(this).getLogicalId(this.api.node.defaultChild as CfnElement)}>/v1/POST/@connections/*]`,
      reason: 'The ids of connections are not known in advance.',
    });
  }

  /** Permission for `execute-api:Invoke` on this ARN allows opening a connection. */
  get connectArn(): string {
    return this.api.arnForExecuteApiV2('$connect', this.stage.stageName);
  }
}
