/** `npx cdk deploy` deploys the service alone. To put it into your own stack, use the construct. */
import { App, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { bundleFunctions } from './bundle.ts';
import { HoldfastStack } from './stack.ts';

await bundleFunctions();
const app = new App();
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
new HoldfastStack(app, app.node.tryGetContext('stack') ?? 'Holdfast');
app.synth();
