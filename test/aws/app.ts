/** The stack as it is deployed, but destroyed with everything in it. `stack` comes from the context. */
import { App, RemovalPolicy } from 'aws-cdk-lib';
import { bundleFunctions } from '../../infra/bundle.ts';
import { HoldfastStack } from '../../infra/stack.ts';

await bundleFunctions();
const app = new App();
const service = { removalPolicy: RemovalPolicy.DESTROY, monitoring: false };
new HoldfastStack(app, app.node.getContext('stack') as string, { service });
app.synth();
