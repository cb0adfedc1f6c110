import { setTimeout } from 'node:timers/promises';
import { sessionLimits } from '../../contract/limits.ts';
import type { SessionBody, SessionView } from '../../contract/views.ts';
import type { Command, Flags, Invocation } from '../command.ts';
import { formatMs } from '../duration.ts';
import { exitCodes } from '../exit-codes.ts';
import { right } from '../table.ts';
import { owner } from './lease-flags.ts';

const ttlMsRange = [sessionLimits.ttlMsMin, sessionLimits.ttlMsMax] as const;

const ttl: Flags = {
  'ttl <duration>': `How long it lives without a keepalive, ${ttlMsRange.map(formatMs).join(' to ')}; ${formatMs(sessionLimits.ttlMsDefault)} by default.`,
};

function showSession(session: SessionBody | SessionView, { terminal }: Invocation): void {
  terminal.result(session, () => {
    terminal.print(`${session.sessionId}  lives for ${formatMs(session.remainingMs)}, until ${session.expiresAt}`);
    if (!('locks' in session) || session.locks.length === 0) return;
    terminal.print('');
    const rows = session.locks.map(({ lock, fence }) => [lock, String(fence)]);
    terminal.table(['LOCK', right('FENCE')], rows);
  });
}

const sessionCreate: Command = {
  name: 'session create',
  summary: 'Open a session: one keepalive for many locks.',
  flags: { ...ttl, ...owner },
  details:
    "The id is secret: anybody who has it can use and end the session. 'holdfast acquire --session' takes locks under it.",
  examples: ['holdfast session create --ttl 1m', 'id=$(holdfast session create --json | jq -r .sessionId)'],
  async run(invocation) {
    const { given, connection } = invocation;
    const { service, owner: by } = connection();
    const ttlMs = given.durationMs('ttl', ...ttlMsRange);
    showSession(await service.createSession({ ...(ttlMs === undefined ? {} : { ttlMs }), owner: by }), invocation);
  },
};

const sessionKeepalive: Command = {
  name: 'session keepalive',
  summary: 'Keep a session alive, once or for as long as this runs.',
  operands: [{ name: 'id' }],
  flags: { 'every <duration>': 'Repeat until Ctrl-C. At a third of the ttl, two keepalives in a row may fail.' },
  examples: ['holdfast session keepalive "$id"', 'holdfast session keepalive "$id" --every 10s'],
  async run(invocation) {
    const { given, connection } = invocation;
    const { interrupted } = invocation.signals;
    const everyMs = given.durationMs('every', 100, ttlMsRange[1]);
    const { service } = connection();
    for (;;) {
      showSession(await service.keepSession(given.operand('id')), invocation);
      if (everyMs === undefined) return exitCodes.ok;
      await setTimeout(everyMs, undefined, { signal: interrupted }).catch(() => undefined);
      interrupted.throwIfAborted();
    }
  },
};

const sessionGet: Command = {
  name: 'session get',
  summary: 'Show a session and its locks.',
  operands: [{ name: 'id' }],
  examples: ['holdfast session get "$id"'],
  async run(invocation) {
    showSession(await invocation.connection().service.getSession(invocation.given.operand('id')), invocation);
  },
};

const sessionEnd: Command = {
  name: 'session end',
  summary: 'End a session and free all its locks.',
  operands: [{ name: 'id' }],
  details: 'It is safe to repeat.',
  examples: ['holdfast session end "$id"'],
  async run({ given, terminal, connection }) {
    const answer = await connection().service.endSession(given.operand('id'));
    terminal.result(answer, () =>
      terminal.print(answer.ended ? `ended, ${answer.released ?? 0} locks freed` : 'had already ended'),
    );
  },
};

export const sessionCommands: readonly Command[] = [sessionCreate, sessionKeepalive, sessionGet, sessionEnd];
