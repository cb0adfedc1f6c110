/** What is done to a client, one story after the other. Each has locks of its own. */
import { Chance } from '../world/chance.ts';
import type { ClientProcess, Command } from './client-process.ts';
import type { Exchange, Fault, FaultyProxy } from './proxy.ts';
import { wrongSignature } from './signature.ts';

export interface Story {
  readonly client: ClientProcess;
  readonly proxy: FaultyProxy;
  /** A new name of a lock. */
  readonly lock: (id: string) => string;
  readonly acquire: (id: string, options: Omit<Command, 'do' | 'id' | 'lock'>) => void;
  /** A call past the proxy. */
  readonly direct: (method: string, path: string, body?: object) => Promise<{ status: number; body: Inspected }>;
  /** Another caller holds this lock. Returns what releases it. */
  readonly hold: (id: string) => Promise<() => Promise<unknown>>;
  readonly expect: (isSo: boolean, otherwise: string) => void;
  readonly seed: number;
}

interface Inspected {
  readonly state?: string;
  readonly queueDepth?: number;
  readonly events?: readonly { readonly type: string }[];
}

export interface Scenario {
  readonly name: string;
  readonly env?: NodeJS.ProcessEnv;
  /** A part of `npm test`. */
  readonly quick?: boolean;
  run(story: Story): Promise<void>;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const of = ({ proxy }: Story, action: string): Exchange[] => proxy.exchanges.filter((one) => one.action === action);
const silent: Fault = { silent: true };
/** A busy machine may be this late. A client that breaks a bound is later by more. */
const lateMs = 10_000;

async function eventually(isSo: () => Promise<boolean>, withinMs = 30_000): Promise<boolean> {
  const until = Date.now() + withinMs;
  while (Date.now() < until) {
    if (await isSo()) return true;
    await pause(50);
  }
  return false;
}

const inspect = async ({ direct, lock }: Story, id: string): Promise<Inspected> =>
  (await direct('GET', `/locks/${lock(id)}`)).body;

const isFree = (story: Story, id: string): Promise<boolean> =>
  // Well before the lease would end by itself.
  eventually(async () => (await inspect(story, id)).state === 'free', 30_000);

const grantsOf = async ({ direct, lock }: Story, id: string): Promise<number> => {
  const { body } = await direct('GET', `/locks/${lock(id)}/history`);
  return body.events?.filter(({ type }) => type === 'granted').length ?? 0;
};

async function isHeld({ client, expect }: Story, id: string): Promise<boolean> {
  const held = (await client.until(id, 'working', 'refused', 'lost'))?.is === 'working';
  expect(held, `${id} did not get its lock`);
  return held;
}

async function release({ client, expect }: Story, id: string, ...or: 'lost'[]): Promise<void> {
  client.send({ do: 'release', id });
  expect((await client.until(id, 'released', ...or)) !== undefined, `${id} did not release`);
}

/** The client must know before the end that it holds the lock no longer. Its beliefs themselves are always checked. */
async function isLostInTime(story: Story, id: string): Promise<void> {
  const lost = await story.client.until(id, 'lost');
  const ends = [...of(story, 'acquire'), ...of(story, 'renew')].flatMap(({ upstream }) =>
    upstream.map(({ body }) => Date.parse(String(body.expiresAt))),
  );
  story.expect(lost !== undefined, `${id} was never told that its lock is lost`);
  if (lost !== undefined)
    story.expect(
      lost.at <= Math.max(...ends) + lateMs,
      `${id} was told ${Math.round(lost.at - Math.max(...ends))} ms too late`,
    );
}

const throttled = (retryAfterMs: number): Fault => ({
  answer: { status: 429, body: { code: 'throttled', detail: 'Too many.', status: 429, retryAfterMs } },
});
/** With a wait below two seconds, no client parks. */
const comeBackIn = (retryAfterMs: number, lock: string, leaseId: string): Fault => {
  const place = { position: 1, queueDepth: 1, holders: [], etaMs: null, waitRemainingMs: 1_000, retryAfterMs };
  return { answer: { status: 202, body: { status: 'waiting', lock, leaseId, ...place } } };
};
const unavailable: Fault = {
  answer: { status: 503, body: { code: 'unavailable', detail: 'Not now.', status: 503, retryAfterMs: 0 } },
};

export const scenarios: readonly Scenario[] = [
  {
    name: 'lost answers',
    quick: true,
    async run(story) {
      story.proxy.rule = (_, before) => (before < 2 ? { cut: before === 0 ? 'after' : 'before' } : undefined);
      story.acquire('a', { leaseMs: 60_000, waitMs: 30_000 });
      if (!(await isHeld(story, 'a'))) return;
      await release(story, 'a');
      story.expect(await isFree(story, 'a'), 'the lock is still held after its release');
      const once = await eventually(async () => (await grantsOf(story, 'a')) === 1);
      story.expect(once, 'the lock was not granted exactly once');
    },
  },
  {
    name: 'repeated and late requests',
    async run(story) {
      story.proxy.rule = (_, before) => (before === 0 ? { lateMs: 1_500 } : { repeatAfterMs: 700 });
      story.acquire('a', { leaseMs: 60_000, waitMs: 30_000 });
      if (!(await isHeld(story, 'a'))) return;
      await release(story, 'a');
      await pause(2_500);
      story.expect(await isFree(story, 'a'), 'the lock is held again after its release');
    },
  },
  {
    name: 'a service that falls silent',
    quick: true,
    async run(story) {
      story.acquire('a', { leaseMs: 3_000, waitMs: 30_000, learns: 'by the event' });
      if (!(await isHeld(story, 'a'))) return;
      story.proxy.rule = () => silent;
      await isLostInTime(story, 'a');
    },
  },
  {
    name: 'answers that take long',
    quick: true,
    async run(story) {
      // Less than a third of the lease: after a longer time, a client may renew first.
      story.proxy.rule = () => ({ answerAfterMs: 1_300 });
      story.acquire('a', { leaseMs: 6_000, waitMs: 30_000 });
      if (!(await isHeld(story, 'a'))) return;
      story.proxy.rule = () => silent;
      await isLostInTime(story, 'a');
    },
  },
  {
    name: 'renewals whose answers take long',
    async run(story) {
      story.acquire('a', { leaseMs: 3_000, waitMs: 30_000 });
      if (!(await isHeld(story, 'a'))) return;
      story.proxy.rule = (_, before) => (before < 2 ? { answerAfterMs: 700 } : silent);
      await isLostInTime(story, 'a');
    },
  },
  {
    name: 'a frozen process',
    async run(story) {
      story.acquire('a', { leaseMs: 2_000, waitMs: 30_000 });
      if (!(await isHeld(story, 'a'))) return;
      await story.client.freeze('a', 4_000);
      story.expect((await story.client.until('a', 'lost')) !== undefined, 'a frozen holder does not learn of its loss');
    },
  },
  {
    name: 'a lease that is kept',
    async run(story) {
      story.acquire('a', { leaseMs: 9_000, waitMs: 30_000 });
      if (!(await isHeld(story, 'a'))) return;
      await pause(13_000);
      story.expect(of(story, 'renew').length >= 3, 'the lease was not renewed');
      story.expect(story.client.told('a', 'lost') === undefined, 'the lock was lost without a reason');
      await release(story, 'a');
    },
  },
  {
    name: 'a wait that is given up',
    quick: true,
    async run(story) {
      const free = await story.hold('a');
      story.acquire('a', { leaseMs: 60_000, waitMs: 60_000 });
      await eventually(async () => (await inspect(story, 'a')).queueDepth === 1);
      // The first release is lost. The place must be given up all the same.
      story.proxy.rule = ({ action }, before) => (action === 'release' && before === 0 ? { cut: 'before' } : undefined);
      story.client.send({ do: 'abort', id: 'a' });
      story.expect((await story.client.until('a', 'refused')) !== undefined, 'the wait did not end');
      const isSaid = await eventually(
        async () => of(story, 'release').some(({ upstream }) => upstream.length > 0),
        15_000,
      );
      story.expect(isSaid, 'the place in the queue was not given up');
      await free();
    },
  },
  {
    name: 'a wait that is served',
    async run(story) {
      const free = await story.hold('a');
      story.acquire('a', { leaseMs: 60_000, waitMs: 60_000 });
      await eventually(async () => (await inspect(story, 'a')).queueDepth === 1);
      await pause(3_000);
      await free();
      if (!(await isHeld(story, 'a'))) return;
      const waits = of(story, 'acquire').map(({ body }) => Number(body.waitMs));
      story.expect(
        waits.every((waitMs, index) => index === 0 || waitMs <= (waits[index - 1] ?? 0)),
        'a later request asks for a longer wait',
      );
      await release(story, 'a');
      story.expect(await isFree(story, 'a'), 'the lock is still held after its release');
    },
  },
  {
    name: 'a deadline',
    quick: true,
    async run(story) {
      story.proxy.rule = () => silent;
      story.acquire('a', { leaseMs: 60_000, waitMs: 1_000, deadlineMs: 2_500 });
      const ended = await story.client.until('a', 'refused');
      // Counted from the first request, because a program needs time to start.
      const tookMs = (ended?.at ?? Number.POSITIVE_INFINITY) - (of(story, 'acquire')[0]?.at ?? 0);
      story.expect(tookMs < 2_500 + lateMs, `a call with a deadline of 2500 ms took ${Math.round(tookMs)} ms`);
    },
  },
  {
    name: 'a service that throttles',
    quick: true,
    async run(story) {
      story.proxy.rule = (_, before) => (before < 2 ? throttled(1_200) : undefined);
      story.acquire('a', { leaseMs: 60_000, waitMs: 30_000 });
      await isHeld(story, 'a');
      const times = of(story, 'acquire').map(({ at }) => at);
      const gaps = times.slice(1).map((at, index) => at - (times[index] ?? 0));
      story.expect(
        gaps.length >= 2 && gaps.slice(0, 2).every((gap) => gap >= 1_190),
        'it comes back before it was asked to',
      );
    },
  },
  {
    name: 'a queue that says when to come back',
    quick: true,
    async run(story) {
      story.proxy.rule = ({ lock, leaseId }, before) => (before === 0 ? comeBackIn(1_500, lock, leaseId) : undefined);
      story.acquire('a', { leaseMs: 60_000, waitMs: 1_900 });
      await story.client.until('a', 'working', 'refused');
      const [first = 0, second = 0] = of(story, 'acquire').map(({ at }) => at);
      story.expect(second - first >= 1_490, 'it comes back before it was asked to');
    },
  },
  {
    name: 'a slow service',
    async run(story) {
      story.acquire('a', { leaseMs: 6_000, waitMs: 30_000 });
      if (!(await isHeld(story, 'a'))) return;
      story.proxy.rule = ({ action }) => (action === 'renew' ? { answerAfterMs: 1_500 } : undefined);
      await pause(9_000);
      const { length } = of(story, 'renew');
      story.expect(length <= 7, `${length} renewals in 9 s, although one in 2 s is enough`);
      story.expect(length >= 2, `only ${length} renewals in 9 s`);
    },
  },
  {
    name: 'a service that fails at once',
    async run(story) {
      story.acquire('a', { leaseMs: 6_000, waitMs: 30_000 });
      if (!(await isHeld(story, 'a'))) return;
      story.proxy.rule = ({ action }) => (action === 'renew' ? unavailable : undefined);
      await isLostInTime(story, 'a');
      const { length } = of(story, 'renew');
      story.expect(length >= 3, `only ${length} tries to renew before the lock was lost`);
      story.expect(length <= 60, `${length} renewals of one lease of 6 s`);
    },
  },
  {
    name: 'signed requests',
    env: { HOLDFAST_AUTH: 'sigv4' },
    async run(story) {
      story.acquire('a+b=c~d@e', { leaseMs: 3_000, waitMs: 30_000 });
      if (!(await isHeld(story, 'a+b=c~d@e'))) return;
      await eventually(async () => of(story, 'renew').length > 0);
      await release(story, 'a+b=c~d@e');
      const wrong = story.proxy.exchanges.map((one) => wrongSignature(one)).filter((why) => why !== undefined);
      story.expect(wrong.length === 0, `a signature is wrong: ${wrong[0]}`);
    },
  },
  {
    name: 'chance',
    async run(story) {
      const chance = new Chance(story.seed);
      story.proxy.rule = () => faultBy(chance);
      const ids = ['a', 'b', 'c', 'd'];
      for (const id of ids) story.acquire(id, { leaseMs: 3_000, waitMs: 20_000 });
      await pause(9_000);
      story.proxy.rule = () => undefined;
      for (const id of ids) {
        const first = await story.client.until(id, 'working', 'refused');
        const isOver = first?.is === 'refused' || story.client.told(id, 'lost') !== undefined;
        if (!isOver) await release(story, id, 'lost');
      }
      for (const id of ids) story.expect(await isFree(story, id), `${id} is held for ever`);
    },
  },
];

/** Mostly nothing, so that some locks are held for a while. */
function faultBy(chance: Chance): Fault | undefined {
  if (!chance.happens(0.4)) return undefined;
  const ms = chance.longTailed(400, 3_000);
  return chance.pick<Fault>([
    { cut: 'before' },
    { cut: 'after' },
    { delayMs: ms },
    { lateMs: ms },
    { answerAfterMs: ms },
    { repeatAfterMs: ms },
    silent,
    throttled(ms),
    unavailable,
  ]);
}
