/** `npx cdk deploy`: the service by itself, for accounts that want it as it is. Use the construct to put it into a stack of your own. */
import { App, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { bundleFunctions } from './bundle.ts';
import { HoldfastStack } from './stack.ts';

await bundleFunctions();
const app = new App();
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
new HoldfastStack(app, app.node.tryGetContext('stack') ?? 'Holdfast');
app.synth();
