/** A real browser, where there is one, and the service to look at. */
import { existsSync } from 'node:fs';
import { type Browser, type BrowserContext, chromium, type LaunchOptions, type Page } from 'playwright-core';

/** Named by `CHROMIUM`, else Debian's. */
export const executablePath = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser'].find(
  (path) => path !== undefined && path !== '' && existsSync(path),
);

export const skipped =
  'SKIPPED: the tests of the console need Chromium. Install it (apt-get install chromium) or name one by CHROMIUM.';

if (executablePath === undefined) console.warn(`\n${skipped}\n`);

/** A name that was made to resolve to this machine, as DNS rebinding does. */
export const foreignHost = 'evil.example';

export const launchOptions: LaunchOptions = {
  executablePath: executablePath ?? '',
  args: [
    // As root, as in a container, Chromium has no sandbox. What it is shown here is our own page.
    '--no-sandbox',
    '--disable-dev-shm-usage',
    // There is no graphics card. Chromium would compute what one does, which is more work than to draw without one.
    '--disable-gpu',
    '--disable-software-rasterizer',
    `--host-resolver-rules=MAP ${foreignHost} 127.0.0.1`,
  ],
};

export const launch = (): Promise<Browser> => chromium.launch(launchOptions);

export interface Visit {
  readonly context: BrowserContext;
  readonly page: Page;
  /** What went wrong in the page, broken policies included. Every test expects none. */
  readonly complaints: string[];
}

export interface VisitOptions {
  readonly width?: number;
  readonly height?: number;
  readonly dark?: boolean;
  readonly scale?: number;
}

export async function visit(browser: Browser, address: string, options: VisitOptions = {}): Promise<Visit> {
  const { width = 1_200, height = 800, dark = false, scale = 1 } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    deviceScaleFactor: scale,
  });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // A request that was answered with an error, or cut by a restart, is no mistake of the page's.
    if (message.type() === 'error' && !/Failed to load resource|ERR_/.test(message.text()))
      complaints.push(message.text());
  });
  // Only a net: a busy machine draws late.
  context.setDefaultTimeout(120_000);
  await page.goto(address);
  return { context, page, complaints };
}
