/** Deploys the stack to the emulator, calls it, updates it in place, and destroys it. */
import { strict as assert } from 'node:assert';
import { measure } from '../../src/cli/measurement.ts';
import { HttpTransport } from '../../src/client/http-transport.ts';
import { systemRuntime } from '../../src/client/runtime.ts';
import { sdkChecks } from '../aws/smoke.ts';
import { Caller, TextSocket } from './callers.ts';
import { consoleChecks } from './console-smoke.ts';
import { Deployment } from './deployment.ts';
import { startEmulator } from './emulator.ts';
import { notifyChecks } from './notify-smoke.ts';
import { Services } from './services.ts';
import { requestChecks } from './smoke.ts';

export interface Story {
  /** Before each step. */
  step(name: string): void;
}

export async function deployEmulated({ step }: Story): Promise<void> {
  step('start the emulator');
  const emulator = await startEmulator();
  const deployment = new Deployment(emulator);
  const services = new Services(emulator.url);
  try {
    step('cdk bootstrap');
    await deployment.bootstrap();
    step('cdk deploy');
    const deployed = await deployment.deploy(20);
    step('cfn-lint');
    const findings = await deployment.lint();
    if (findings === undefined) step('cfn-lint is not installed: the template is not linted');
    else assert.equal(findings, '', findings);
    const caller = new Caller(deployed.url);
    for (const [name, check] of Object.entries({ ...requestChecks, ...notifyChecks, ...consoleChecks })) {
      step(name);
      await check({ caller, deployed, services, log: emulator.log });
    }
    // The same checks as `npm run deploy:check` on an AWS account.
    const sdk = { url: deployed.url, watchUrl: deployed.watchUrl, webSocket: TextSocket, deadlineMs: 60_000 };
    for (const [name, check] of Object.entries(sdkChecks)) {
      step(`through the SDK: ${name}`);
      await check({ ...sdk, namespace: 'check' });
    }
    step('measure');
    const measured = await measure({
      transport: new HttpTransport(sdk),
      namespace: 'check',
      runtime: systemRuntime,
      rounds: 10,
      crowd: 3,
      durationMsMax: 300_000,
      dollarsMax: 1,
      signal: new AbortController().signal,
      onPhase: () => {},
    });
    assert.equal(measured.rows.length, 7, JSON.stringify(measured));
    assert.deepEqual(caller.uncalled(), [], 'Some operations were not called.');
    step('cdk deploy once more, with a change: an update in place');
    const held = await caller.post('/v1/orders/locks/kept/acquire', { leaseMs: 600_000 });
    const updated = await deployment.deploy(10);
    assert.deepEqual(updated, deployed);
    const { body } = await caller.get('/v1/orders/locks/kept');
    assert.equal(body.fence, held.body.fence);
    assert.equal(body.state, 'held');
    step('cdk destroy');
    await deployment.destroy();
    const gone = await fetch(`${deployed.url}/v1/health`);
    assert.notEqual(gone.status, 200);
  } catch (error) {
    throw new Error(`${(error as Error).message}\nThe emulator’s log ends so:\n${emulator.log().slice(-3_000)}`);
  } finally {
    services.end();
    deployment.end();
    step('stop the emulator');
    await emulator.stop();
  }
}
