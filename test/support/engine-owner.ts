/**
 * Only the engine of a service, in its own process that a test can kill. Prints one line of JSON, then keeps running.
 */
import { readArguments } from '../../src/cli/arguments.ts';
import { serve } from '../../src/cli/commands/serve.ts';
import { readServeOptions } from '../../src/cli/serve-options.ts';
import { startEngine } from '../../src/local/engine.ts';

export type OwnerLine = { name: string; endpoint: string; pid: number } | { error: string; name: string };

const print = (line: OwnerLine) => process.stdout.write(`${JSON.stringify(line)}\n`);

try {
  const options = readServeOptions(readArguments(serve, process.argv.slice(2)), {});
  const { name, endpoint, pid } = await startEngine(options);
  print({ name, endpoint, pid: pid ?? 0 });
} catch (error) {
  const { name, message } = error as Error;
  print({ name, error: message });
}
