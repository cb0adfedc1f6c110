/** `npm run demo`: starts the service in memory, tells the story of the paused holder against it, and leaves nothing behind. */
import { defaultOptions } from '../local/options.ts';
import { serve } from '../local/serve.ts';
import { StartError } from '../local/start-error.ts';
import { tell } from './story.ts';
import { Timeline } from './timeline.ts';
import { Worker } from './worker.ts';

/** The demo waits for two leases of one second and their grace. A viewer should not wait for more than three times that. */
const storyMsMax = 8_000;

/** The demo is the story; a log of requests would drown it. What fails is told at its end. */
const silent = { info: () => {}, warn: () => {}, error: () => {} };

async function main(): Promise<number> {
  const timeline = new Timeline(process.stdout);
  // The environment may speak of another service, with a token and a table of its own: this one is apart from it.
  const service = await serve({ ...defaultOptions, memory: true, port: 0 }, silent);
  try {
    timeline.paragraph(`Holdfast runs in memory at ${service.url}, and two workers talk to it.`);
    const signal = AbortSignal.timeout(storyMsMax);
    await tell({ timeline, a: new Worker('A', service.url, signal), b: new Worker('B', service.url, signal) });
    return 0;
  } finally {
    await service.stop();
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`${error instanceof StartError ? error.message : `The demo failed: ${String(error)}`}\n`);
  process.exitCode = 1;
}
