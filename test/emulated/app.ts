/** The stack as it is deployed, less what the emulator does not know (see left-out.ts). Reads `emulator` and `pollSeconds` from the context. */
import { App, CfnResource, Duration, Fn, RemovalPolicy } from 'aws-cdk-lib';
import { bundleFunctions } from '../../infra/bundle.ts';
import { HoldfastStack } from '../../infra/stack.ts';

await bundleFunctions();
const app = new App();
const emulator = app.node.getContext('emulator') as string;
const stack = new HoldfastStack(app, 'HoldfastEmulated', {
  env: { account: '000000000000', region: 'us-east-1' },
  service: {
    monitoring: false,
    events: true,
    poll: Duration.seconds(Number(app.node.getContext('pollSeconds'))),
    removalPolicy: RemovalPolicy.DESTROY,
  },
});
for (const node of stack.node.findAll()) {
  if (!CfnResource.isCfnResource(node) || node.cfnResourceType !== 'AWS::ApiGatewayV2::RouteResponse') continue;
  node.node.scope?.node.tryRemoveChild(node.node.id);
}
const { watchApi, notifications } = stack.locks;
for (const { function: sender } of [notifications.notifier, notifications.publisher]) {
  const path = Fn.join('', [`${emulator}/_aws/execute-api/`, watchApi.api.apiId, '/v1']);
  sender.addEnvironment('HOLDFAST_WEBSOCKET_ENDPOINT', path);
}
app.synth();
