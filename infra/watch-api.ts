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
  /** IAM besides the ticket, which is asked for in any case. False where callers have tokens: WebSocket APIs know no JWT. */
  readonly iam: boolean;
  readonly throttle: Required<ThrottleProps>;
}

/**
 * Where callers connect, each with a ticket. Only connecting is authorized: API Gateway takes all else on a connection as said by
 * whoever opened it.
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
      // Whatever a client says, it is answered: that keeps a quiet connection open.
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
        'Access logs of WebSocket APIs need a role in the settings of the whole account, which are not this stack’s to change. The function logs each connection.',
    });
    if (!iam) {
      Validations.of(this.api.node.findChild('$connect-Route')).acknowledge({
        id: 'AwsSolutions-APIG4',
        reason: 'The function asks for a ticket, which only a caller with a valid token gets, for one connection.',
      });
    }
    for (const name of ['$disconnect', '$default']) {
      const id = `${name}-Route`;
      Validations.of(this.api.node.findChild(id)).acknowledge({
        id: 'AwsSolutions-APIG4',
        reason: 'API Gateway authorizes a WebSocket when it connects; the other routes take no authorizer.',
      });
    }
  }

  /** Lets a function send to connections. */
  tellFrom(teller: ServiceFunction): void {
    const connections = this.api.arnForExecuteApiV2('POST/@connections/*', this.stage.stageName);
    teller.allow(['execute-api:ManageConnections'], [connections]);
    teller.function.addEnvironment('HOLDFAST_WEBSOCKET_ENDPOINT', this.stage.callbackUrl);
    Validations.of(teller.role).acknowledge({
      id: `AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<${Stack.of(this).getLogicalId(this.api.node.defaultChild as CfnElement)}>/v1/POST/@connections/*]`,
      reason: 'Connections come and go: their ids can not be named beforehand.',
    });
  }

  /** What `execute-api:Invoke` on opens a connection. */
  get connectArn(): string {
    return this.api.arnForExecuteApiV2('$connect', this.stage.stageName);
  }
}
