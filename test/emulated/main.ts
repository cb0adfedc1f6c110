/** `npm run deploy:emulated`: the real stack on an emulator of AWS, on this machine. */
import { installEmulator } from './emulator.ts';
import { leftOut } from './left-out.ts';
import { deployEmulated } from './story.ts';

const startedAt = Date.now();
const say = (line: string): void =>
  console.log(`${((Date.now() - startedAt) / 1_000).toFixed(1).padStart(6)} s  ${line}`);

try {
  installEmulator(say);
  await deployEmulated({ step: say });
  say('Deployed, called, updated in place and destroyed. No process is left.');
  console.log('\nThis proves the wiring: resources, routes, event sources and environments. It leaves out:');
  for (const line of leftOut) console.log(`  - ${line}`);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
