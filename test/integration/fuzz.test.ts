import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fuzz, placeVictim, type Victim } from '../fuzz/fuzz.ts';
import { exactOnly } from '../support/engine.ts';
import { startService, type TestService } from '../support/service.ts';
import { wide } from '../support/wide.ts';

/** The same requests in each run. `npm run fuzz` sends new ones. */
const seed = Number(process.env.HOLDFAST_SEED ?? 1);
const requests = wide ? 2_000 : 700;

let service: TestService;
let victim: Victim;
beforeAll(async () => {
  service = await startService({ pollMs: 200 });
  victim = await placeVictim(service.url);
});
afterAll(() => service.stop());

describe('bad requests', () => {
  it(
    'are all answered, none with a failure of the service, and none with a secret of somebody else',
    exactOnly('the service answers 503 if the table fails'),
    async () => {
      const { url } = service;
      const { sent, findings } = await fuzz({ url, seed, requests, budgetMs: 15_000, secrets: victim.secrets });
      expect(findings, `Replay: node test/fuzz/main.ts ${requests} --seed ${seed}`).toEqual([]);
      expect(sent).toBeGreaterThan(100);
    },
  );

  it('do not take locks from their holders', async () => {
    expect(await victim.check()).toEqual([]);
  });
});
