import type { ManyGrantBody } from '../../client/index.ts';
import type { Command, Invocation } from '../command.ts';
import { formatMs } from '../duration.ts';
import { exitCodes } from '../exit-codes.ts';
import { showingPlace } from '../place.ts';
import { right } from '../table.ts';
import { leaseFlags, leaseId, readLeaseId, readLeaseMs, readWaitMs, session, wait } from './lease-flags.ts';

const locks = { name: 'locks', many: true } as const;

const multiAcquire: Command = {
  name: 'multi acquire',
  summary: 'Take several locks at once, all or none, and leave them held.',
  operands: [locks],
  flags: { ...wait, ...leaseFlags, ...session },
  details:
    'Callers never wait for each other in a circle, in whatever order they name the locks. Each lock has its own fence.',
  examples: ['holdfast multi acquire wallet:1 wallet:2 --wait 10s'],
  async run(invocation) {
    const { given, terminal } = invocation;
    const { service } = invocation.connection();
    const names = given.operands('locks');
    const options = { waitMs: readWaitMs(given), leaseMs: readLeaseMs(given), owner: given.text('owner') };
    const grant = await showingPlace(invocation, given.operand('locks'), options.waitMs, (waiting) =>
      service.acquireLeases(names, { ...options, ...waiting }, given.text('session')),
    );
    terminal.result(grant, () => showGrants(grant, invocation));
    return exitCodes.ok;
  },
};

const multiRenew: Command = {
  name: 'multi renew',
  summary: 'Renew the lease on several locks, all or none.',
  operands: [locks],
  flags: { ...leaseId, 'lease <duration>': 'How long it lasts from now on.' },
  examples: ['holdfast multi renew wallet:1 wallet:2 --lease-id 5bXW…'],
  async run(invocation) {
    const { given, env, terminal, connection } = invocation;
    const { service } = connection();
    const grant = await service.renewLeases(given.operands('locks'), readLeaseId(given, env), readLeaseMs(given));
    terminal.result(grant, () => showGrants(grant, invocation));
  },
};

const multiRelease: Command = {
  name: 'multi release',
  summary: 'Release several locks.',
  operands: [locks],
  flags: leaseId,
  details: 'Exits with 76 if the lease on one of them was over before. The others are released anyway.',
  examples: ['holdfast multi release wallet:1 wallet:2 --lease-id 5bXW…'],
  async run({ given, env, terminal, connection }) {
    const answer = await connection().service.releaseLeases(given.operands('locks'), readLeaseId(given, env));
    const { released, failed, expired = [] } = answer;
    const late = (name: string) => (expired.includes(name) ? ', but its lease was over before' : '');
    terminal.result(answer, () => {
      for (const name of released) terminal.print(`${name} released${late(name)}`);
      for (const { lock, reason } of failed) terminal.print(`${lock} not released: ${reason}`);
    });
    const isInTime = expired.length === 0 && failed.every(({ reason }) => reason === 'already_released');
    return isInTime ? exitCodes.ok : exitCodes.lost;
  },
};

function showGrants({ grants, leaseId: id, remainingMs }: ManyGrantBody, { terminal }: Invocation): void {
  terminal.table(
    ['LOCK', right('FENCE')],
    grants.map(({ lock, fence }) => [lock, String(fence)]),
  );
  const lasts = remainingMs === null ? 'as long as its session' : formatMs(remainingMs);
  terminal.print(`lease id ${id}  (secret: the right to renew and release), lasts ${lasts}`);
}

export const multiCommands: readonly Command[] = [multiAcquire, multiRenew, multiRelease];
