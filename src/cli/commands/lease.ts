import { overBefore } from '../../client/held.ts';
import type { GrantBody } from '../../client/index.ts';
import type { Command, Invocation } from '../command.ts';
import { formatMs } from '../duration.ts';
import { exitCodes, exitLine } from '../exit-codes.ts';
import { UsageError } from '../failure.ts';
import { ifHeld, readIfHeld, unlessHeld } from '../if-held.ts';
import { showingPlace } from '../place.ts';
import { leaseId, lockFlags, readLeaseId, readLeaseMs, readLockOptions, session } from './lease-flags.ts';

const acquire: Command = {
  name: 'acquire',
  summary: 'Take a lock and leave it held, without renewing it.',
  operands: [{ name: 'lock' }],
  flags: {
    ...lockFlags,
    ...session,
    export: 'Print lines for eval in a shell: HOLDFAST_LOCK, HOLDFAST_FENCE and HOLDFAST_LEASE_ID.',
    ...ifHeld,
  },
  details: `This program does not renew the lease: run 'holdfast renew' before it ends. To run one command, prefer 'holdfast run': it
acquires, renews and always releases.

With --export, a failure prints a line for eval that ends the script, with or without 'set -e'. It does not end an
interactive shell. To release however the script ends: trap 'holdfast release "$HOLDFAST_LOCK"' EXIT`,
  examples: [
    'holdfast acquire deploy --lease 10m',
    'eval "$(holdfast acquire deploy --lease 10m --export)"',
    'holdfast acquire wallet:42 --wait 30s --json | jq .fence',
  ],
  async run(invocation) {
    const { given, terminal, connection } = invocation;
    const { service } = connection();
    const name = given.operand('lock');
    const options = readLockOptions(given);
    const sessionId = given.text('session');
    if (sessionId !== undefined && given.has('lease')) {
      throw new UsageError('--session decides how long the lock is held, instead of --lease: give one of the two.');
    }
    const heldCode = readIfHeld(given);
    const exitCode = await unlessHeld(heldCode, async () => {
      const grant = await showingPlace(invocation, name, options.waitMs, (waiting) =>
        service.acquireLease(name, { ...options, ...waiting }, sessionId),
      );
      if (given.has('export')) printExports(grant, invocation);
      else terminal.result(grant, () => showGrant(grant, invocation));
      return undefined;
    });
    // The script must not go on as if it held the lock, even if --if-held asks for exit code 0.
    if (exitCode !== undefined && given.has('export')) terminal.print(exitLine(exitCode));
    return exitCode;
  },
};

const renew: Command = {
  name: 'renew',
  summary: 'Renew a lease.',
  operands: [{ name: 'lock' }],
  flags: { ...leaseId, 'lease <duration>': 'How long it lasts from now on; by default as long as at first.' },
  examples: ['holdfast renew deploy --lease 10m', 'holdfast renew deploy --lease-id 5bXW…'],
  async run(invocation) {
    const { given, env, terminal } = invocation;
    const { service } = invocation.connection();
    const grant = await service.renewLease(given.operand('lock'), readLeaseId(given, env), readLeaseMs(given));
    terminal.result(grant, () => showGrant(grant, invocation));
  },
};

const release: Command = {
  name: 'release',
  summary: 'Release a lease, or give up a place in the queue.',
  operands: [{ name: 'lock' }],
  flags: leaseId,
  details: `The next waiter gets the lock in the same step. It is safe to repeat. Exits with 76 if the lease was over before: the
work ended too late, even if nobody has taken the lock since.`,
  examples: ['holdfast release deploy', 'holdfast release deploy --lease-id 5bXW…'],
  async run(invocation) {
    const { given, env, terminal } = invocation;
    const name = given.operand('lock');
    const answer = await invocation.connection().service.releaseLease(name, readLeaseId(given, env));
    terminal.result(answer, () => {
      const outcomes = { ok: 'released', cancelled: 'left the queue', already_released: 'was released already' };
      const late = answer.expired === true ? ', but its lease was over before' : '';
      terminal.print(`${name} ${outcomes[answer.reason as keyof typeof outcomes] ?? answer.reason}${late}`);
    });
    return overBefore(answer) === undefined ? exitCodes.ok : exitCodes.lost;
  },
};

function showGrant(grant: GrantBody, { terminal }: Invocation): void {
  const left = grant.remainingMs === null ? 'as long as its session' : formatMs(grant.remainingMs);
  terminal.print(`${terminal.styled('green', 'granted')} ${terminal.styled('bold', grant.lock)}`);
  const rows = [
    ['fence', String(grant.fence)],
    ['lease id', `${grant.leaseId}  (secret: the right to renew and release)`],
    ['lasts', left],
    ...(grant.limit > 1 ? [['permits', `${grant.permits} of ${grant.limit}`]] : []),
    ...(grant.waitedMs > 0 ? [['waited', formatMs(grant.waitedMs)]] : []),
  ];
  for (const [title = '', text = ''] of rows) terminal.print(`  ${title.padEnd(8)}  ${text}`);
}

/**
 * A shell reads no character of these three specially: names and ids have none such, and a fence is a number. They are
 * quoted anyway.
 */
function printExports({ lock, leaseId: id, fence }: GrantBody, { terminal }: Invocation): void {
  terminal.print(`export HOLDFAST_LOCK='${lock}' HOLDFAST_FENCE='${fence}' HOLDFAST_LEASE_ID='${id}'`);
}

export const leaseCommands: readonly Command[] = [acquire, renew, release];
