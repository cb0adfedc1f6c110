import { chromium } from 'playwright-core';
import type { TestProject } from 'vitest/node';
import { executablePath, launchOptions } from './browser.ts';
import { startService } from './service.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Null if there is no browser. Then the suites skip themselves. */
    stage: { browser: string; service: { url: string; console: string } } | null;
  }
}

/** One browser and one service for all files: to start both costs more than most tests. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (executablePath === undefined) {
    project.provide('stage', null);
    return () => Promise.resolve();
  }
  const [browser, service] = await Promise.all([
    chromium.launchServer(launchOptions),
    startService(['--allow-revoke']),
  ]);
  const { url, console } = service;
  project.provide('stage', { browser: browser.wsEndpoint(), service: { url, console } });
  return async () => {
    await browser.close();
    await service.stop();
  };
}
