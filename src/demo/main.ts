/** `npm run demo`: starts the service in memory, runs the story of the paused holder, and leaves nothing behind. */
import { defaultOptions } from '../local/options.ts';
import { serve } from '../local/serve.ts';
import { StartError } from '../local/start-error.ts';
import { runStory } from './story.ts';
import { Timeline } from './timeline.ts';
import { Worker } from './worker.ts';

/**
 * The demo waits for two leases of one second and their grace. A viewer should not wait more than three times as long.
 */
const storyMsMax = 8_000;

/** A log of requests would hide the story. Failures are printed at the end. */
const silent = { info: () => {}, warn: () => {}, error: () => {} };

async function main(): Promise<number> {
  const timeline = new Timeline(process.stdout);
  // The environment may name another service, with its own token and table. The demo ignores it. The built-in engine
  // starts at once.
  const service = await serve({ ...defaultOptions, engine: 'memory', memory: true, port: 0 }, silent);
  try {
    timeline.paragraph(`Holdfast runs in memory at ${service.url}, and two workers talk to it.`);
    const signal = AbortSignal.timeout(storyMsMax);
    await runStory({ timeline, a: new Worker('A', service.url, signal), b: new Worker('B', service.url, signal) });
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
