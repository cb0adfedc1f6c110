import type { LockEvent, WatchEvent } from '../../client/index.ts';
import type { Command } from '../command.ts';
import { formatMs } from '../duration.ts';
import { UsageError } from '../failure.ts';
import { harmless, right } from '../table.ts';
import type { Terminal } from '../terminal.ts';

/** The service puts this many on one page. More than that needs further requests. */
const historyLimitDefault = 50;
const historyLimitMax = 100_000;

function detailsOf({ heldMs, waitedMs, by, reason }: LockEvent): string {
  return [
    waitedMs === undefined ? '' : `waited ${formatMs(waitedMs)}`,
    heldMs === undefined ? '' : `held ${formatMs(heldMs)}`,
    by === undefined ? '' : `by ${by}`,
    reason ?? '',
  ]
    .filter((part) => part !== '')
    .join(', ');
}

export const history: Command = {
  name: 'history',
  summary: 'Show what happened to a lock, newest first.',
  operands: [{ name: 'lock' }],
  flags: { 'limit <n>': `How many events; ${historyLimitDefault} by default.` },
  details: 'Events are kept for seven days. They arrive with a moment of delay.',
  examples: ['holdfast history wallet:42', 'holdfast history wallet:42 --limit 500 --json'],
  async run({ given, terminal, connection }) {
    const limit = given.integer('limit', 1, historyLimitMax) ?? historyLimitDefault;
    const events: LockEvent[] = [];
    for await (const event of connection().service.history(given.operand('lock'))) {
      events.push(event);
      if (events.length >= limit) break;
    }
    terminal.result({ events }, () => {
      if (events.length === 0) {
        terminal.note('no events are known for this lock');
        return;
      }
      terminal.table(
        ['AT', 'EVENT', right('FENCE'), 'OWNER', 'DETAILS'],
        events.map((event) => [event.at, event.type, String(event.fence ?? ''), event.owner, detailsOf(event)]),
      );
    });
  },
};

export const watch: Command = {
  name: 'watch',
  summary: 'Show what happens to locks, as it happens.',
  operands: [{ name: 'lock', optional: true }],
  flags: {
    'prefix <text>': {
      mayBeEmpty: true,
      meaning: "Watch all locks whose names begin with this text; '' watches every lock of the namespace.",
    },
    'count <n>': 'Stop after this many events; without it, Ctrl-C stops.',
  },
  details: `Reconnects by itself. 'connected' is printed first and after each reconnection. Events in between were missed.
The service tells where its WebSocket is. HOLDFAST_WATCH_URL is only needed if a proxy stands in between.`,
  examples: ['holdfast watch wallet:42', 'holdfast watch --prefix wallet: --json', "holdfast watch --prefix ''"],
  async run({ given, terminal, connection }) {
    const lock = given.operand('lock');
    const prefix = given.text('prefix');
    if ((lock === '') === (prefix === undefined)) {
      throw new UsageError('Say what to watch: one <lock>, or all locks that begin with --prefix.');
    }
    let left = given.integer('count', 1, Number.MAX_SAFE_INTEGER) ?? Number.POSITIVE_INFINITY;
    const { service } = connection();
    // A refused WebSocket does not say why. This request does: it fails at once if the URL or token is wrong.
    await service.health();
    for await (const event of service.watch(prefix === undefined ? { lock } : { prefix })) {
      // A grant to a parked waiter is sent only to the connection that parked it. This connection never parks.
      if ('leaseId' in event) continue;
      if (terminal.json) terminal.printJson(event);
      else showEvent(event, terminal);
      if (event.type !== 'connected') left -= 1;
      if (left <= 0) break;
    }
  },
};

function showEvent(event: Exclude<WatchEvent, { readonly leaseId: string }>, terminal: Terminal): void {
  if (event.type === 'connected') {
    terminal.note('connected');
    return;
  }
  const [type, owner, details] = [event.type.padEnd(14), event.owner, detailsOf(event)].map(harmless);
  const fence = event.fence === undefined ? '' : `  fence ${event.fence}`;
  const color = event.type === 'granted' ? 'green' : event.type === 'queued' ? 'cyan' : 'yellow';
  const line = `${terminal.styled(color, type ?? '')}  ${terminal.styled('bold', event.lock)}  ${owner}${fence}`;
  terminal.print(`${terminal.styled('dim', event.at)}  ${line}${details === '' ? '' : `  ${details}`}`);
}
