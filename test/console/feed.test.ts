import { expect, it, onTestFinished } from 'vitest';
import { startService } from './service.ts';
import { live, newNamespace, scenes, violations } from './stage.ts';

scenes('the feed', (stage) => {
  it('has a feed that can be narrowed, stopped and resumed', async () => {
    const ns = newNamespace();
    const page = await stage.open(`${ns}/feed`);
    await live(page);
    const first = await stage.acquire(`${ns}/a`, { owner: 'ada' });
    await page.locator('.row', { hasText: 'ada got the lock' }).waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await stage.release(`${ns}/a`, first.leaseId);
    await page.getByRole('button', { name: 'Resume (1 new)' }).waitFor();
    expect(await page.locator('.row', { hasText: 'released it' }).count()).toBe(0);
    await page.getByRole('button', { name: /Resume/ }).click();
    await page.locator('.row', { hasText: 'ada released it' }).waitFor();
    await page.getByRole('checkbox', { name: 'released', exact: true }).check();
    await expect.poll(() => page.locator('.row', { hasText: 'got the lock' }).count()).toBe(0);
    await page.getByLabel('Lock or owner').fill('nobody');
    await page.getByText('No event like that so far.').waitFor();
    await page.getByLabel('Lock or owner').fill('ada');
    await page.locator('.row', { hasText: 'ada released it' }).waitFor();
    expect(await violations(page)).toEqual([]);
  });

  it('survives a restart of the service: says that it is stale, comes back, and catches up from the history', async () => {
    const ns = newNamespace();
    // A service of its own, because the others must not miss theirs.
    const service = await startService();
    const { service: shared } = stage;
    stage.service = service;
    onTestFinished(() => {
      stage.service = shared;
      return service.stop();
    });
    const lease = await stage.acquire(`${ns}/a`, { owner: 'before', leaseMs: 600_000 });
    const page = await stage.open(`${ns}/feed`);
    await live(page);
    await stage.acquire(`${ns}/b`, { owner: 'seen' });
    await page.locator('.row', { hasText: 'seen got the lock' }).waitFor();
    await service.restart(async () => {
      await page.locator('.pill', { hasText: 'Disconnected' }).waitFor();
      await page.getByText(/What you see is as of/).waitFor();
    });
    // Before the page has reconnected, so the stream of events does not contain it.
    await stage.release(`${ns}/a`, lease.leaseId);
    await page.locator('.pill', { hasText: 'Live' }).waitFor();
    await page.locator('.row', { hasText: 'before released it' }).waitFor();
    await stage.acquire(`${ns}/c`, { owner: 'after' });
    await page.locator('.row', { hasText: 'after got the lock' }).waitFor();
  });
});
