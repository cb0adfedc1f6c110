/**
 * Why a lock alone is not enough, in three acts. An account holds 100. A wants to add 50 and B to take away 30, so it
 * should end at 120. A pauses between reading and writing, for longer than its lease lasts. Nothing is simulated: each
 * line is printed after the service has answered.
 */
import type { Timeline } from './timeline.ts';
import { leaseMs, summarize, type Worker } from './worker.ts';

const opening = 100;
const added = 50;
const taken = 30;
const correct = opening + added - taken;

interface Scene {
  readonly timeline: Timeline;
  readonly a: Worker;
  readonly b: Worker;
}

/** Runs the story. Fails if the service does not behave as the text says. */
export async function runStory(scene: Scene): Promise<void> {
  await withoutFence(scene);
  await withFence(scene);
  await withoutLock(scene);
  scene.timeline.paragraph(
    'When to use which:',
    '  A lock alone saves work that would be done twice; it does not keep a late writer out.',
    '  A lock with its fence checked is for long work, or work with effects in several places.',
    '  Compare-and-swap is for short work on one record, and needs no lock at all.',
    '  docs/choosing.md explains more, including when to use none of them.',
    '',
  );
}

/** A and B hold the lock in turn, and A works on after its lease has ended. Both send `headers` with their writes. */
async function pauseAndWriteLate(
  { timeline, a, b }: Scene,
  account: string,
  headers: (fence: number) => Record<string, string>,
) {
  await a.open(account, opening);
  const grantOfA = await a.acquire(account);
  timeline.step('A', `takes the lock for ${leaseMs} ms`, `fence ${grantOfA.fence}`);
  const seenByA = await a.read(account);
  timeline.step('A', `reads ${seenByA.value}, and pauses: a garbage collection, a frozen Lambda, a slow network`);
  timeline.step('B', 'asks for the lock and waits');
  const grantOfB = await b.acquire(account);
  timeline.step('B', "is granted it, now that A's lease is over", `fence ${grantOfB.fence}`);
  const seenByB = await b.read(account);
  const writtenByB = await b.write(account, seenByB.value - taken, headers(grantOfB.fence));
  timeline.step(
    'B',
    `reads ${seenByB.value}, writes ${seenByB.value} - ${taken} = ${seenByB.value - taken}`,
    summarize(writtenByB),
  );
  await b.release(account, grantOfB);
  const writtenByA = await a.write(account, seenByA.value + added, headers(grantOfA.fence));
  timeline.step('A', `wakes, and writes ${seenByA.value} + ${added} = ${seenByA.value + added}`, summarize(writtenByA));
  return writtenByA;
}

async function withoutFence(scene: Scene): Promise<void> {
  scene.timeline.act(
    1,
    'A lock, but nobody checks the fence',
    'Both take the lock, and write whatever is there (If-Match: *).',
  );
  const late = await pauseAndWriteLate(scene, 'act-1', () => ({ 'if-match': '*' }));
  const { value } = await scene.b.read('act-1');
  check(late.status === 200 && value !== correct, 'the late write to be accepted');
  scene.timeline.verdict(
    'bad',
    `The account holds ${value} instead of ${correct}: B's update is lost, though both held the lock.`,
  );
}

async function withFence(scene: Scene): Promise<void> {
  const { timeline, a } = scene;
  timeline.act(2, 'The same, with the fence checked', 'Each write carries the fence of its lock (Fence-Token).');
  const fenced = (fence: number) => ({ 'if-match': '*', 'fence-token': String(fence) });
  const late = await pauseAndWriteLate(scene, 'act-2', fenced);
  check(late.body.code === 'stale-fence', 'the late write to be refused as stale');
  const grant = await a.acquire('act-2');
  timeline.step('A', 'knows that it lost the lock, and takes it again', `fence ${grant.fence}`);
  const seen = await a.read('act-2');
  const written = await a.write('act-2', seen.value + added, fenced(grant.fence));
  timeline.step(
    'A',
    `reads ${seen.value}, writes ${seen.value} + ${added} = ${seen.value + added}`,
    summarize(written),
  );
  await a.release('act-2', grant);
  await concludeWell(scene, 'act-2', 'the late write was refused with stale-fence');
}

async function withoutLock(scene: Scene): Promise<void> {
  const { timeline, a, b } = scene;
  timeline.act(
    3,
    'Compare-and-swap, and no lock at all',
    'Each write names the version that it replaces (If-Match: "1").',
  );
  const replacing = (version: number) => ({ 'if-match': `"${version}"` });
  await a.open('act-3', opening);
  const seenByA = await a.read('act-3');
  timeline.step('A', `reads ${seenByA.value} in version ${seenByA.version}, and pauses`);
  const seenByB = await b.read('act-3');
  const writtenByB = await b.write('act-3', seenByB.value - taken, replacing(seenByB.version));
  timeline.step(
    'B',
    `reads ${seenByB.value}, writes ${seenByB.value} - ${taken} = ${seenByB.value - taken}`,
    summarize(writtenByB),
  );
  const late = await a.write('act-3', seenByA.value + added, replacing(seenByA.version));
  timeline.step('A', `wakes, and writes ${seenByA.value} + ${added} = ${seenByA.value + added}`, summarize(late));
  check(late.status === 412, 'the late write to be refused by its version');
  const again = await a.read('act-3');
  const written = await a.write('act-3', again.value + added, replacing(again.version));
  timeline.step(
    'A',
    `tries again: reads ${again.value}, writes ${again.value} + ${added} = ${again.value + added}`,
    summarize(written),
  );
  await concludeWell(scene, 'act-3', 'the late write was refused with version-mismatch, and the retry was right');
}

async function concludeWell({ timeline, b }: Scene, account: string, because: string): Promise<void> {
  const { value } = await b.read(account);
  check(value === correct, `${correct} in the account`);
  timeline.verdict('good', `The account holds ${value}: ${because}.`);
}

function check(asTold: boolean, expected: string): void {
  if (!asTold) throw new Error(`The service did not behave as the story says: expected ${expected}.`);
}
