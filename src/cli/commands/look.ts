import { LeaseLostError, type LockSummary, type LockView } from '../../client/index.ts';
import { readInteger } from '../arguments.ts';
import type { Command } from '../command.ts';
import { formatMs } from '../duration.ts';
import { exitCodes } from '../exit-codes.ts';
import { Failure } from '../failure.ts';
import { right } from '../table.ts';
import type { Terminal } from '../terminal.ts';

const leftOf = (remainingMs: number | null): string => (remainingMs === null ? 'session' : formatMs(remainingMs));

const stateOf = (terminal: Terminal, state: 'free' | 'held'): string =>
  terminal.styled(state === 'held' ? 'yellow' : 'green', state);

const inspect: Command = {
  name: 'inspect',
  summary: 'Show who holds a lock and who waits for it.',
  operands: [{ name: 'lock' }],
  examples: ['holdfast inspect wallet:42', 'holdfast inspect wallet:42 --json | jq .holders'],
  async run({ given, terminal, connection }) {
    const view = await connection().service.inspect(given.operand('lock'));
    terminal.result(view, () => showLock(view, terminal));
  },
};

function showLock(view: LockView, terminal: Terminal): void {
  const limit = view.limit > 1 ? `  limit ${view.limit}` : '';
  terminal.print(
    `${terminal.styled('bold', view.lock)}  ${stateOf(terminal, view.state)}  fence ${view.fence}${limit}`,
  );
  if (view.holders.length > 0) {
    terminal.print('');
    terminal.table(
      ['HOLDER', right('FENCE'), right('PERMITS'), right('LEFT'), 'SINCE', 'METADATA'],
      view.holders.map(({ owner, fence, permits, remainingMs, acquiredAt, metadata = {} }) => [
        owner,
        String(fence),
        String(permits),
        leftOf(remainingMs),
        acquiredAt,
        Object.entries(metadata)
          .map(([key, value]) => `${key}=${value}`)
          // The store returns the attributes in no fixed order.
          .sort()
          .join(' '),
      ]),
    );
  }
  if (view.queue.length > 0) {
    terminal.print('');
    terminal.table(
      [right('#'), 'WAITER', right('WAITING'), right('PERMITS')],
      view.queue.map(({ position, owner, waitingMs, permits }) => [
        String(position),
        owner,
        formatMs(waitingMs),
        String(permits),
      ]),
    );
    if (view.queueDepth > view.queue.length) terminal.print(`… ${view.queueDepth} in all`);
  }
}

const list: Command = {
  name: 'list',
  summary: 'List the locks of the namespace.',
  operands: [{ name: 'prefix', optional: true }],
  flags: { 'state <state>': { choices: ['held', 'free'], meaning: 'Only those that are held, or free.' } },
  examples: ['holdfast list', 'holdfast list wallet: --state held', "holdfast list --json | jq -r '.locks[].lock'"],
  async run({ given, terminal, connection }) {
    const prefix = given.operand('prefix');
    const state = given.text('state') as 'held' | 'free' | undefined;
    const filter = { ...(prefix === '' ? {} : { prefix }), ...(state === undefined ? {} : { state }) };
    const locks: LockSummary[] = [];
    for await (const lock of connection().service.list(filter)) locks.push(lock);
    terminal.result({ locks }, () => {
      if (locks.length === 0) {
        terminal.note('there are no locks');
        return;
      }
      terminal.table(
        ['LOCK', 'STATE', right('FENCE'), right('HOLDERS'), right('LEFT'), right('QUEUE'), 'HELD BY'],
        locks.map((lock) => [
          lock.lock,
          lock.state,
          String(lock.fence),
          lock.limit > 1 ? `${lock.holders.length}/${lock.limit}` : String(lock.holders.length),
          lock.holders.map(({ remainingMs }) => leftOf(remainingMs))[0] ?? '',
          String(lock.queueDepth),
          lock.holders.map(({ owner }) => owner).join(', '),
        ]),
      );
    });
  },
};

const check: Command = {
  name: 'check',
  summary: 'Tell whether a fence is valid now.',
  operands: [{ name: 'lock' }, { name: 'fence' }],
  details: `Exits with 0 if it is valid, with 1 if it is not. The answer may be out of date when it arrives, so the
resource that the lock protects must check the fence itself.`,
  examples: ['holdfast check wallet:42 1794837595413'],
  async run({ given, terminal, connection }) {
    const fence = readInteger('<fence>', given.operand('fence'), 0, Number.MAX_SAFE_INTEGER);
    const answer = await connection().service.check(given.operand('lock'), fence);
    terminal.result(answer, () => {
      const verdict = answer.valid ? terminal.styled('green', 'is valid') : terminal.styled('red', 'is not valid');
      terminal.print(`fence ${fence} ${verdict}: the lock is ${answer.state} and its latest fence is ${answer.fence}`);
    });
    return answer.valid ? exitCodes.ok : exitCodes.no;
  },
};

const revoke: Command = {
  name: 'revoke',
  summary: "End a lease against its holder's will.",
  operands: [{ name: 'lock' }],
  flags: {
    'fence <n>': 'The fence of the lease to end, as inspect shows it. A later holder keeps its lease.',
    'reason <text>': 'Why; the history and the former holder are told.',
  },
  details:
    "The next waiter gets the lock. The former holder's writes are refused only if the resource checks the fence.",
  examples: ["holdfast revoke wallet:42 --fence 1794837595413 --reason 'stuck since Tuesday'"],
  async run({ given, terminal, connection }) {
    const name = given.operand('lock');
    const fence = readInteger(
      '--fence',
      given.needed('fence', `'holdfast inspect ${name}' shows it.`),
      0,
      Number.MAX_SAFE_INTEGER,
    );
    const reason = given.needed('reason', 'say why, for those who read the history.');
    try {
      await connection().service.revoke(name, { fence, reason });
    } catch (error) {
      // Nobody lost a lock here: the question was whether this fence holds, and it does not.
      if (!(error instanceof LeaseLostError)) throw error;
      const message = `${name} is not held with fence ${fence}, so nothing was revoked. 'holdfast inspect ${name}' shows who holds it.`;
      throw new Failure('lease-lost', exitCodes.no, message, { cause: error });
    }
    terminal.result({ revoked: true }, () => terminal.print(`${name} revoked from fence ${fence}`));
  },
};

/** The commands that look at locks or at other holders' leases, in the order of the help. */
export const lookCommands: readonly Command[] = [inspect, list, check, revoke];
