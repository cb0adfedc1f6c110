import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { missingEmulator } from './emulator.ts';
import { leftOut } from './left-out.ts';
import { deployEmulated } from './story.ts';

const missing = missingEmulator();
// With a message, so that a reader of the output knows what was not tested.
if (missing !== undefined) console.warn(`SKIPPED: the stack on an emulator of AWS. ${missing}`);

describe('the stack on an emulator of AWS', () => {
  it.skipIf(missing !== undefined)('deploys, answers, notifies, is updated in place and leaves nothing', async () => {
    await deployEmulated({ step: () => {} });
  });

  it('says in the docs what it leaves out', () => {
    const page = readFileSync(new URL('../../docs/deploy.md', import.meta.url), 'utf8').replaceAll(/\s+/g, ' ');
    for (const line of leftOut) expect(page).toContain(line);
  });
});
