import { expect, it } from 'vitest';
import { call } from './service.ts';
import { newNamespace, scenes, violations } from './stage.ts';

scenes('one lock', (stage) => {
  it('draws the timeline of a crash from the history: expiry by shape, the waiter, and the fence', async () => {
    const ns = newNamespace();
    await stage.acquire(`${ns}/job`, { owner: 'crashed', leaseMs: 1_000 });
    await stage.park(`${ns}/job`, 'heir', { leaseMs: 120_000 });
    await expect
      .poll(
        async () =>
          (await call<{ holders: { owner: string }[] }>(stage.service.url, `${ns}/locks/job`)).holders[0]?.owner,
        { timeout: 120_000 },
      )
      .toBe('heir');
    const page = await stage.open(`${ns}/locks/job`);
    await page.locator('.drawing .hold.expired').waitFor({ state: 'attached' });
    await page.locator('.drawing .mark.expired path').waitFor({ state: 'attached' });
    await page.locator('.drawing .hold.holding').waitFor({ state: 'attached' });
    await page.locator('.drawing .wait.granted').waitFor({ state: 'attached' });
    await page.getByText(/Fence: rose 2 times/).waitFor();
    await page.locator('.history .row', { hasText: 'crashed ran out of time' }).waitFor();
    await page.locator('.measures dd').nth(4).getByText('1').waitFor();
    // It grows live.
    const width = () => page.locator('.drawing .hold.holding rect').getAttribute('width').then(Number);
    const before = await width();
    await expect.poll(width, { timeout: 120_000 }).toBeGreaterThan(before);
    expect(await violations(page)).toEqual([]);
  });

  it('revokes after a question and with a reason', async () => {
    const ns = newNamespace();
    const { fence } = await stage.acquire(`${ns}/stuck`, { owner: 'sleeper', leaseMs: 600_000 });
    await stage.park(`${ns}/stuck`, 'next', { leaseMs: 600_000 });
    const page = await stage.open(`${ns}/locks/stuck`);
    await page.getByRole('button', { name: 'Revoke …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(`fence ${fence}`).waitFor();
    expect(await violations(page)).toEqual([]);
    // Nothing happens without a reason, and Escape is an answer.
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await page.keyboard.press('Escape');
    await expect.poll(() => dialog.count()).toBe(0);
    await page.locator('.holders').getByText('sleeper').waitFor();
    await page.getByRole('button', { name: 'Revoke …' }).click();
    await dialog.getByLabel(/Reason/).fill('stuck since Tuesday');
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await page.locator('.holders').getByText('next').waitFor();
    await page.locator('.history .row', { hasText: 'sleeper was revoked' }).getByText('stuck since Tuesday').waitFor();
    await page.locator('.drawing .mark.revoked').waitFor({ state: 'attached' });
  });
});
