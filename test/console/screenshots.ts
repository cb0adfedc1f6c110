/** Makes the pictures of docs/console.md and of the README: `npm run console:screenshots`. Takes a minute and a half. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { executablePath, launch, skipped, visit } from './browser.ts';
import { namespace, startScene } from './example-activity.ts';
import { startService } from './service.ts';

const folder = fileURLToPath(new URL('../../docs/console/', import.meta.url));
/** Sharp on a good screen, and still under a hundred kilobytes. */
const scale = 1.5;
const quality = 0.9;
/** One minute on the timeline holds all that happens. */
const sceneMs = 50_000;

/** As WebP, which Chromium itself can write: a quarter of the PNG. */
async function compress(page: Page, png: Buffer): Promise<Buffer> {
  const base64 = await page.evaluate(
    async ([text, wanted]) => {
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      const image = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
      const canvas = new OffscreenCanvas(image.width, image.height);
      canvas.getContext('2d')?.drawImage(image, 0, 0);
      const webp = await canvas.convertToBlob({ type: 'image/webp', quality: wanted });
      return btoa(Array.from(new Uint8Array(await webp.arrayBuffer()), (byte) => String.fromCharCode(byte)).join(''));
    },
    [png.toString('base64'), quality] as const,
  );
  return Buffer.from(base64, 'base64');
}

interface Picture {
  readonly name: string;
  readonly view: string;
  readonly dark?: boolean;
  readonly height: number;
  /** Only this part of the page. */
  readonly part?: string;
  readonly prepare?: (page: Page) => Promise<void>;
}

const oneMinute = async (page: Page) => page.getByRole('radio', { name: '1 min' }).check();

const pictures: readonly Picture[] = [
  // First: the crash must still be within the minute that it shows.
  { name: 'timeline', view: 'locks/wallet:42', height: 980, part: '.timeline', prepare: oneMinute },
  { name: 'locks-light', view: 'locks', height: 720 },
  { name: 'locks-dark', view: 'locks', dark: true, height: 720 },
  { name: 'sessions', view: 'sessions', height: 720 },
];

async function take(browser: Browser, address: string, picture: Picture): Promise<void> {
  const { height, dark = false } = picture;
  const { page, context } = await visit(browser, `${address}#/${namespace}/${picture.view}`, {
    width: 1_240,
    height,
    dark,
    scale,
  });
  await page.locator('.pill', { hasText: 'Live' }).waitFor();
  await picture.prepare?.(page);
  // Until every small picture has read its history.
  await page.waitForTimeout(6_000);
  const png = picture.part === undefined ? await page.screenshot() : await page.locator(picture.part).screenshot();
  // Elsewhere than on the console's own page, whose policy allows no pictures to be made.
  const other = await context.newPage();
  const webp = await compress(other, png);
  writeFileSync(`${folder}${picture.name}.webp`, webp);
  console.log(`${picture.name}.webp  ${Math.round(webp.length / 1_024)} kB`);
  if (process.env.KEEP_PNG !== undefined) writeFileSync(`${process.env.KEEP_PNG}/${picture.name}.png`, png);
  await context.close();
}

if (executablePath === undefined) throw new Error(skipped);
mkdirSync(folder, { recursive: true });
const [browser, service] = await Promise.all([launch(), startService()]);
const scene = await startScene(service.url, sceneMs);
for (const picture of pictures) await take(browser, service.console, picture);
await browser.close();
await scene.stop();
await service.stop();
