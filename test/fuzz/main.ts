/** `node test/fuzz/main.ts [requests] [--seed n]`: runs the service in memory and sends many bad requests to it. */
import { parseArgs } from 'node:util';
import { defaultOptions } from '../../src/local/options.ts';
import { serve } from '../../src/local/serve.ts';
import { fuzz, placeVictim } from './fuzz.ts';

const { positionals, values } = parseArgs({ allowPositionals: true, options: { seed: { type: 'string' } } });
const requests = Number(positionals[0] ?? 20_000);
const seed = Number(values.seed ?? Date.now() % 1_000_000_000);
const silent = { info: () => {}, warn: () => {}, error: () => {} };

const running = await serve({ ...defaultOptions, memory: true, port: 0, pollMs: 200, engine: 'dynoxide' }, silent);
try {
  const victim = await placeVictim(running.url);
  const from = performance.now();
  const { url } = running;
  const { sent, statuses, findings } = await fuzz({
    url,
    seed,
    requests,
    budgetMs: 3_600_000,
    secrets: victim.secrets,
  });
  const wrong = [...findings, ...(await victim.check())];
  process.stdout.write(
    `${sent} requests from seed ${seed} in ${Math.round((performance.now() - from) / 1000)} s: ` +
      `${[...statuses]
        .sort(([one], [other]) => one - other)
        .map(([status, count]) => `${status} ×${count}`)
        .join(', ')}\n`,
  );
  for (const finding of wrong) process.stdout.write(`${finding}\n`);
  process.exitCode = wrong.length > 0 ? 1 : 0;
} finally {
  await running.stop();
}
