import { describe, expect, it } from 'vitest';
import type { Holdfast, OnceResult } from '../../src/client/index.ts';
import type { Transport } from '../../src/client/transport.ts';
import { Twin } from '../../src/testing/index.ts';

/** What happens to a runner at one of its requests: it dies or it pauses, before the request takes effect or after. */
const fates = ['dies before', 'dies after', 'pauses before', 'pauses after'] as const;
type Fate = { readonly request: number; readonly how: (typeof fates)[number] } | undefined;

/** A run has five requests. A sixth would be a repeat after the thaw. */
const requests = [0, 1, 2, 3, 4];
const everyFate: Fate[] = requests.flatMap((request) => fates.map((how) => ({ request, how })));

const job = { everyMs: 86_400_000, leaseMs: 5_000, waitMs: 30_000 };

class World {
  readonly twin = new Twin();
  /** Results that the service accepted, even if the answer did not reach the runner. */
  readonly completions: unknown[] = [];
  readonly #paused: Holdfast[] = [];

  runner(fate: Fate): Holdfast {
    const client = this.twin.client();
    const { transport } = (client as unknown as { core: { transport: Transport } }).core;
    const request = transport.request.bind(transport);
    let count = 0;
    transport.request = async (call, signal) => {
      const now = fate?.request === count ? fate.how : undefined;
      count += 1;
      if (now === 'dies before') this.twin.partition(client);
      if (now === 'pauses before') await this.#pause(client);
      const answer = await request(call, signal);
      const { value } = (call.body ?? {}) as { value?: { once?: string; value?: unknown } };
      if (call.operation === 'putRecord' && value?.once === 'done' && answer.status < 300)
        this.completions.push(value.value);
      if (now === 'pauses after') await this.#pause(client);
      if (now !== 'dies after') return answer;
      this.twin.partition(client);
      throw new Error('The runner is dead.');
    };
    return client;
  }

  async thawAll(): Promise<void> {
    for (const client of this.#paused) await this.twin.thaw(client);
  }

  /** The client is frozen, so that nothing of it goes on. The test thaws it. */
  #pause(client: Holdfast): Promise<void> {
    this.twin.freeze(client);
    this.#paused.push(client);
    return (client as unknown as { core: { runtime: { awake(): Promise<void> } } }).core.runtime.awake();
  }
}

describe('once, with runners that die or pause at every step', () => {
  it.each(everyFate)(
    'completes one run, and gives one result to all: the first runner $how request $request',
    async (first) => {
      for (const second of [undefined, ...everyFate]) {
        const world = new World();
        const { twin } = world;
        const told: OnceResult<string>[] = [];
        const start = (fate: Fate, name: string) => {
          const ended = world.runner(fate).once('nightly', job, () => name);
          ended.then((result) => told.push(result)).catch(() => undefined);
          return ended;
        };
        void start(first, 'first').catch(() => undefined);
        await twin.advance(1_000);
        void start(second, 'second').catch(() => undefined);
        await twin.advance(20_000);
        await twin.until(start(undefined, 'third'));
        await world.thawAll();
        await twin.advance(60_000);
        const last = await twin.until(start(undefined, 'fourth'));

        expect(last, 'the window stays done').toMatchObject({ ran: false, done: true });
        expect(world.completions, 'one completion').toEqual([last.value]);
        for (const { done, value } of told) if (done) expect(value).toBe(last.value);
      }
    },
  );
});
