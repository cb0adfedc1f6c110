/** What every scene of the console needs: a browser, a service, and callers that do something with its locks. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, chromium, type Locator, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, inject } from 'vitest';
import { type Visit, type VisitOptions, visit } from './browser.ts';
import { call } from './service.ts';
import type {} from './shared.setup.ts';

const shared = inject('stage');

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export class Stage {
  browser!: Browser;
  service!: { readonly url: string; readonly console: string };
  /** Those of the running test. */
  readonly visits: Visit[] = [];
  /** The page of `open`. */
  #kept: Visit | undefined;

  /** Opens any page in a browser without cookies. Every error on the page fails the test. */
  async visit(address: string, options: VisitOptions = {}): Promise<Visit> {
    const opened = await visit(this.browser, address, options);
    this.visits.push(opened);
    return opened;
  }

  /**
   * Opens the console at a view, as with the address that was printed. The tests of a file share the page, which is
   * loaded again for each: a page in a process of its own computes five times as much.
   */
  async open(view: string): Promise<Page> {
    const address = `${this.service.console}#/${view}`;
    if (this.#kept === undefined) {
      this.#kept = await this.visit(address);
    } else {
      this.visits.push(this.#kept);
      await this.#kept.page.goto(address);
    }
    return this.#kept.page;
  }

  /** Ends the visits of a test. Returns what went wrong in them. */
  async leave(): Promise<string[]> {
    const ended = this.visits.splice(0);
    const complaints = ended.flatMap((one) => one.complaints.splice(0));
    const closed = ended.filter((one) => one !== this.#kept);
    await Promise.all(closed.map(({ context }) => context.close()));
    return complaints;
  }

  /** A request about a lock that is named with its namespace, as `shop/wallet`. */
  #send<T>(lock: string, action: string, body: object): Promise<T> {
    return call<T>(this.service.url, `${lock.replace('/', '/locks/')}/${action}`, body);
  }

  acquire(lock: string, body: object): Promise<{ leaseId: string; fence: number; status: string }> {
    return this.#send(lock, 'acquire', body);
  }

  release(lock: string, leaseId: string): Promise<unknown> {
    return this.#send(lock, 'release', { leaseId });
  }

  /** Queues without having to run. */
  park(lock: string, owner: string, more: object = {}): Promise<{ leaseId: string }> {
    return this.acquire(lock, { owner, waitMs: 600_000, notify: { type: 'event', ref: owner }, ...more });
  }

  async putRecord(ns: string, key: string, value: unknown, headers: Record<string, string> = {}): Promise<void> {
    await fetch(`${this.service.url}/v1/${ns}/records/${key}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json', 'if-none-match': '*', ...headers },
      body: JSON.stringify({ value }),
    });
  }
}

/** All scenes share a browser and a service. If there is no browser, they are skipped with a message. */
export function scenes(name: string, play: (stage: Stage) => void): void {
  describe.skipIf(shared === null)(name, () => {
    const stage = new Stage();
    beforeAll(async () => {
      if (shared === null) return;
      stage.service = shared.service;
      stage.browser = await chromium.connect(shared.browser);
    });
    // Only the connection: the browser goes on.
    afterAll(() => stage.browser?.close());
    afterEach(async () => {
      expect(await stage.leave()).toEqual([]);
    });
    play(stage);
  });
}

/** Each test has its own namespace, so that none sees another's locks. */
export const newNamespace = () => `t-${randomUUID().slice(0, 8)}`;

/** Everything that axe finds wrong, in words. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axeSource);
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    return (await axe.run()).violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .map(({ html }) => html)
          .slice(0, 3)
          .join(' ')}`,
    );
  });
}

export const row = (page: Page, name: string): Locator =>
  page.locator('.locks .row', { has: page.getByRole('link', { name, exact: true }) });

export const live = (page: Page): Promise<void> => page.locator('.pill', { hasText: 'Live' }).waitFor();
