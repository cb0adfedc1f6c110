/** Faults that somebody may make in a client. Each is planted in a copy of its source, and the kit must find it. */
import { cp, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Planted {
  readonly client: string;
  readonly fault: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** The story in which it shows. */
  readonly scenario: string;
}

const lostAnswers = 'lost answers';
const long = 'answers that take long';
const fallsSilent = 'a service that falls silent';
const givenUp = 'a wait that is given up';
const throttles = 'a service that throttles';
const failsAtOnce = 'a service that fails at once';

const anotherLeaseId = 'a retry has another lease id';
const fromTheAnswer = 'the lease counts from the answer';
const keepsItsPlace = 'a cancelled wait keeps its place';
const comesBackSoon = 'it ignores retryAfterMs';
const neverLost = 'it does not look at the clock';
const noBackoff = 'failed renewals are repeated without a pause';
const tellsSecrets = 'it prints the lease id';
const noDeadline = 'it does not keep its deadline';

export const planted: readonly Planted[] = [
  {
    client: 'typescript',
    fault: anotherLeaseId,
    scenario: lostAnswers,
    file: 'src/client/lease-calls.ts',
    from: 'acquire({ ...fields, waitMs, pollMs,',
    to: "acquire({ ...fields, leaseId: place === 'new' ? leaseId : leaseId + 'x', waitMs, pollMs,",
  },
  {
    client: 'typescript',
    fault: fromTheAnswer,
    scenario: long,
    file: 'src/client/acquire.ts',
    from: 'if (calls.sessionBound || goneMs < remainingMs / 3) return { calls, body, from: answer.sentAt, remainingMs };',
    to: 'if (calls.sessionBound || goneMs < remainingMs / 3) return { calls, body, from: markNow(runtime), remainingMs };',
  },
  {
    client: 'typescript',
    fault: keepsItsPlace,
    scenario: givenUp,
    file: 'src/client/acquire.ts',
    from: 'if (!isRefusal(error) && !(error instanceof UnavailableError && error.unsent)) void abandon(core, calls);\n      const gone',
    to: 'const gone',
  },
  {
    client: 'typescript',
    fault: comesBackSoon,
    scenario: throttles,
    file: 'src/client/caller.ts',
    from: 'error.retryAfterMs + backoffMs',
    to: 'backoffMs',
  },
  {
    client: 'typescript',
    fault: neverLost,
    scenario: fallsSilent,
    file: 'src/client/keeper.ts',
    from: 'if (this.#leftMs() > 0) return true;',
    to: 'if (this.#leftMs() > -20_000) return true;',
  },
  {
    client: 'python',
    fault: anotherLeaseId,
    scenario: lostAnswers,
    file: 'clients/python/src/holdfast/core.py',
    from: 'asked = {"leaseId": lease_id, "waitMs": wait_ms, "pollMs": poll_ms}',
    to: 'asked = {"leaseId": lease_id if place == "new" else lease_id + "x", "waitMs": wait_ms, "pollMs": poll_ms}',
  },
  {
    client: 'python',
    fault: fromTheAnswer,
    scenario: long,
    file: 'clients/python/src/holdfast/waiting.py',
    from: 'taken = Taken(calls, body, answer.sent_at, remaining_ms)',
    to: 'taken = Taken(calls, body, clock.mark(), remaining_ms)',
  },
  {
    client: 'python',
    fault: keepsItsPlace,
    scenario: givenUp,
    file: 'clients/python/src/holdfast/waiting.py',
    from: 'if error.status is None or isinstance(error, UnavailableError):\n                yield',
    to: 'if isinstance(error, UnavailableError):\n                yield',
  },
  {
    client: 'python',
    fault: noBackoff,
    scenario: failsAtOnce,
    file: 'clients/python/src/holdfast/keeper.py',
    from: 'again_in_ms = self._clock.backoff_ms(self._failures, 100, longest_ms)',
    to: 'again_in_ms = 0 * longest_ms',
  },
  {
    client: 'python',
    fault: 'a renewal waits as long as a poll',
    scenario: fallsSilent,
    file: 'clients/python/src/holdfast/keeper.py',
    from: 'attempt_ms = max(1.0, min(attempt_ms, self._left_ms()))',
    to: 'attempt_ms = 35_000',
  },
  {
    client: 'cli',
    fault: fromTheAnswer,
    scenario: long,
    file: 'src/client/acquire.ts',
    from: 'if (calls.sessionBound || goneMs < remainingMs / 3) return { calls, body, from: answer.sentAt, remainingMs };',
    to: 'if (calls.sessionBound || goneMs < remainingMs / 3) return { calls, body, from: markNow(runtime), remainingMs };',
  },
  {
    client: 'cli',
    fault: tellsSecrets,
    scenario: lostAnswers,
    file: 'src/cli/hold.ts',
    from: 'look();\n    child.go();',
    to: 'look();\n    terminal.note(leaseId);\n    child.go();',
  },
  {
    client: 'cli',
    fault: keepsItsPlace,
    scenario: givenUp,
    file: 'src/cli/signals.ts',
    from: 'this.#interruption.abort(new Interrupted(signal));',
    to: 'process.exit(1);',
  },
  {
    client: 'cli',
    fault: noDeadline,
    scenario: 'a deadline',
    file: 'src/cli/connection.ts',
    from: 'tryMs: timeoutMs / 2,',
    to: 'tryMs: 20_000,',
  },
  {
    client: 'cli',
    fault: comesBackSoon,
    scenario: throttles,
    file: 'src/client/caller.ts',
    from: 'error.retryAfterMs + backoffMs',
    to: 'backoffMs',
  },
];

const root = fileURLToPath(new URL('../..', import.meta.url));

/** A copy of what the clients consist of, with the fault in it. Remove it after use. */
export async function plant({ file, from, to }: Planted): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-planted-'));
  const isCopied = (path: string) => !/__pycache__|node_modules/.test(path);
  for (const part of ['src', 'clients', 'test/clients/drivers', 'package.json'])
    await cp(join(root, part), join(folder, part), { recursive: true, filter: isCopied });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const path = join(folder, file);
  const text = await readFile(path, 'utf8');
  if (text.split(from).length !== 2) throw new Error(`${file} does not contain this exactly once: ${from}`);
  await writeFile(
    path,
    text.replace(from, () => to),
  );
  return folder;
}
