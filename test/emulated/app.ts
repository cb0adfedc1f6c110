/**
 * The stack as it is deployed, less what the emulator does not know (see left-out.ts), and a durable function of a user's beside it.
 * Reads `emulator`, `pollSeconds` and `scratch`, a folder, from the context.
 */
import { join } from 'node:path';
import { App, CfnOutput, CfnResource, Duration, Fn, RemovalPolicy } from 'aws-cdk-lib';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { build } from 'esbuild';
import { bundleFunctions, nodeModule } from '../../infra/bundle.ts';
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

const { acquire, http, watchApi, notifications, expiry } = stack.locks;
const socketsAt = (host: string): string => Fn.join('', [`${host}/_aws/execute-api/`, watchApi.api.apiId, '/v1']);
for (const sender of [acquire, http, notifications.notifier, notifications.publisher, expiry.reaper]) {
  sender.function.addEnvironment('HOLDFAST_WEBSOCKET_ENDPOINT', socketsAt(emulator));
}
for (const answering of [acquire, http]) {
  answering.function.addEnvironment('HOLDFAST_WEBSOCKET_URL', socketsAt(emulator.replace(/^http/, 'ws')));
}

const folder = join(app.node.getContext('scratch') as string, 'durable-function');
await build({ ...nodeModule, entryPoints: ['test/emulated/durable-function.ts'], outfile: join(folder, 'index.mjs') });
const durable = new LambdaFunction(stack, 'Durable', {
  runtime: Runtime.NODEJS_24_X,
  handler: 'index.handler',
  code: Code.fromAsset(folder),
  timeout: Duration.seconds(30),
  durableConfig: { executionTimeout: Duration.minutes(5), retentionPeriod: Duration.days(1) },
});
stack.locks.grantCallbacks(durable);
new CfnOutput(stack, 'DurableFunctionName', { value: durable.functionName });
app.synth();
