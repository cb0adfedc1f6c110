import { expect, it } from 'vitest';
import { call } from './service.ts';
import { newNamespace, scenes, violations } from './stage.ts';

scenes('sessions and records', (stage) => {
  it('draws circles of waits: those that stand, and those of sessions that the service broke', async () => {
    const ns = newNamespace();
    const session = async (owner: string) =>
      (await call<{ sessionId: string }>(stage.service.url, `${ns}/sessions`, { owner, ttlMs: 60_000 })).sessionId;
    const [one, two] = [await session('red'), await session('blue')];
    await stage.acquire(`${ns}/left`, { owner: 'red', sessionId: one });
    await stage.acquire(`${ns}/right`, { owner: 'blue', sessionId: two });
    const page = await stage.open(`${ns}/sessions`);
    await page.getByText('2 sessions').waitFor();
    await page.getByText('No waits form a circle.').waitFor();
    void stage.acquire(`${ns}/right`, { owner: 'red', sessionId: one, waitMs: 60_000 }).catch(() => undefined);
    await page.locator('.s-waits', { hasText: 'right' }).waitFor();
    const refused = await stage.acquire(`${ns}/left`, { owner: 'blue', sessionId: two, waitMs: 5_000 });
    expect(refused).toMatchObject({ code: 'deadlock' });
    await page.locator('.cycle.broken').getByText('Deadlock, broken at').waitFor();
    expect(await page.locator('.cycle.broken .ring .node').count()).toBe(2);

    await stage.acquire(`${ns}/ledger`, { owner: 'billing', leaseMs: 600_000 });
    await stage.acquire(`${ns}/stock`, { owner: 'shipping', leaseMs: 600_000 });
    await stage.park(`${ns}/stock`, 'billing');
    await stage.park(`${ns}/ledger`, 'shipping');
    await page.locator('.cycle.stands li', { hasText: 'billing waits for stock, which shipping holds' }).waitFor();
    expect(await violations(page)).toEqual([]);
  });

  it('prints a record with its version and floor', async () => {
    const ns = newNamespace();
    await stage.putRecord(ns, 'config', { retries: 3, name: 'x', nested: [true, null] }, { 'fence-token': '7' });
    const page = await stage.open(`${ns}/records`);
    await page.getByText('Which record?').waitFor();
    await page.getByLabel('Key').fill('config');
    await page.keyboard.press('Enter');
    await page.locator('.json').waitFor();
    expect(JSON.parse((await page.locator('.json').textContent()) ?? '')).toEqual({
      retries: 3,
      name: 'x',
      nested: [true, null],
    });
    expect(await page.locator('.record dd').allTextContents()).toEqual([
      '1',
      '7',
      expect.stringMatching(/just now|s ago/),
    ]);
    expect(await violations(page)).toEqual([]);
    await page.getByLabel('Key').fill('missing');
    await page.keyboard.press('Enter');
    await page.getByText('There is no record missing.').waitFor();
  });

  it('shows names and values as text, whatever they look like', async () => {
    const ns = newNamespace();
    const attack = '<img src=x onerror="globalThis.attacked=1"><script>globalThis.attacked=1</script>';
    await stage.acquire(`${ns}/lock`, { owner: attack, metadata: { [attack]: attack }, leaseMs: 600_000 });
    await stage.park(`${ns}/lock`, `javascript:attacked=1//${attack}`.slice(0, 128));
    await stage.putRecord(ns, 'evil', { [attack]: `</pre>${attack}`, url: 'javascript:attacked=1' });
    const page = await stage.open(`${ns}/locks`);
    await page.locator('.c-holder').getByText(attack).waitFor();
    for (const view of ['locks/lock', 'sessions', 'feed', 'records/evil']) {
      await page.goto(`${stage.service.url}/console#/${ns}/${view}`);
      await page.locator('h1').waitFor();
      await page.waitForTimeout(150);
    }
    await page.locator('.json').getByText('</pre><img src=x').waitFor();
    expect(await page.evaluate(() => (globalThis as { attacked?: number }).attacked)).toBeUndefined();
    expect(await page.locator('img[src=x], script:not([src])').count()).toBe(0);
  });
});
