import type { Results } from '../results.ts';
import { figure, table, wrapProse } from './format.ts';
import {
  contestantsTable,
  crashTable,
  crossover,
  cycleCostTable,
  cycleTable,
  handOffCostTable,
  handOffTable,
  incrementTable,
  inversionsTable,
  multiLockTable,
  peersTable,
  pushHandOffTable,
  rateTable,
  renewalsTable,
  requestsTable,
  stampedeTable,
  storesTable,
  throughputTable,
  waitingTable,
} from './tables.ts';
import { targetsOf } from './targets.ts';

function head({ date, commit, quick, machine, absent, contestants, measuredAgain = [] }: Results): string {
  const nameOf = (id: string) => contestants.find((contestant) => contestant.id === id)?.name ?? id;
  const again = measuredAgain
    .map(
      (one) =>
        `\n\nThe hand-offs of ${nameOf(one.contestant)} were measured again on ${one.date} at commit \`${one.commit}\`.`,
    )
    .join('');
  const missing = absent.length === 0 ? '' : `\n\nLeft out of this run: ${absent.map(({ why }) => why).join(' ')}`;
  const warning = quick
    ? '\n\n**This was a quick run, which measures every cell only briefly. Use its figures to try out the benchmark, not to quote them.**'
    : '';
  return `# Benchmarks

Written by \`npm run bench\` on ${date} at commit \`${commit}\`. \`node test/bench/main.ts --report-only\` draws it again from \`benchmarks.json\`. Do not edit.

${machine.os}, ${machine.cores} cores, ${machine.memoryGb} GB, Node ${machine.node}. Clients, service and servers share these cores.${again}${warning}${missing}

No figure here is a time, because machines differ and this one is shared. Each figure is a count, a price, or a ratio to **one single write of the same store**, measured next to it in the same run. A hand-off of 2.0 takes as long as two writes.`;
}

const comparable = (results: Results) => `## What is comparable, and what is not

${storesTable(results)}

- **On DynamoDB** everything can be compared directly: one engine, one machine, the same minutes. For Holdfast, a single write is a write to its own table, which has a stream and indexes. For a peer, it is a write to a table like its own, which has neither and is cheaper. The engine is an emulator. It has no network in between. It slows down with the size of an item more than DynamoDB does, and with every change of a table that has a stream. So each part of the run has a new table. Counts of requests and of capacity units are what AWS would bill.
- **Other stores** are compared in their own writes: what locking costs on top of what the store costs anyway. Their writes are not equal. One node of each was run, without the replication that production has, which makes them look better. If a write is synced to disk, the unit is expensive, which makes the ratios small. Redis syncs once a second. An advisory lock of PostgreSQL writes nothing at all and ends with the connection. So its ratio to a synced commit only says that memory is faster than disk.
- **Pollers** ask every 50 ms, as our own direct mode does for its next waiter if holds are long. Their hand-off is a choice between time and requests. All waiters are in one process and share connections if the protocol allows it. That helps the peers more than it would in production.
- Only Holdfast, ZooKeeper and etcd give a number that a resource can check (a fence). dynamodb-lock-client's FailOpen gives one that restarts when the item is deleted. The others give nothing that makes a late write harmless.

${contestantsTable(results)}`;

const targets = (results: Results) => `## Targets

${table(
  ['target', 'found', ''],
  targetsOf(results).map(({ target, found, met }) => [target, found, met ? 'met' : '**missed**']),
)}

This is where the time of a cycle over HTTP goes. What the service itself computes (routes, validation, rules, values) is about a hundredth of a write, timed with a store that answers at once. The rest is one more process in between, on cores that it shares with the engine and the caller: an empty request and its answer take a fifth of a write. The engine also does work that a raw writer's table does not have: it stores the history, which the service writes from the stream. A hand-off is one write to an item of at most 2 KB, however many wait.

${peersTable(results)}

The second table compares each of the others with Holdfast over HTTP, for the same work. Above 1, Holdfast takes less. The hand-off is in each store's own writes.`;

const handOffs = (results: Results) => `## A contended mutex

![Hand-off by number of waiters](benchmarks/hand-off.svg)

The time from the call of release until the next waiter has its answer, in single writes: p50 / p99 (hand-offs seen). All other waiters are quiet before each hand-off. Single writes are measured in between or, if waiters poll, before and after.

${handOffTable(results)}

Order inversions: hand-offs to a waiter that had not waited longest.

${inversionsTable(results)}

Hand-offs in the time of one single write. Each holder releases at once, and queues again when the next one has the lock (hand-offs seen).

${rateTable(results)}

![Requests per hand-off](benchmarks/requests.svg)

Requests to the store per hand-off in the same run, with the queueing of the next waiter. In brackets: the requests above the smallest number for a join, a grant and a release. These are wake-ups without a result.

${requestsTable(results)}

What that costs in DynamoDB's capacity, in dollars per million hand-offs. DynamoDB bills by the size of an item. Holdfast's item has only the first waiters, and later ones are in pages, so a long queue costs no more than a short one. With ten waiters the item is larger than 1 KB, and each write to it is two units.

${handOffCostTable(results)}`;

function pushes({ push }: Results): string {
  if (push === null || push === undefined) return '';
  const { crowd, date, commit } = push;
  return `## Waiting by push

Measured on ${date} at commit \`${commit}\`, by \`npm run bench -- --only push\` or as part of a whole run. The time from the call of release until the next waiter knows, in single writes: p50 / p99 (hand-offs seen). By long poll it knows from the answer to its request, by push from the message on its WebSocket. The two took turns. The SDK renews the lease before it relies on the message, which is one more write.

${pushHandOffTable(push)}

The cost of waiting through the SDK while nothing is released, per waiter and minute, counted after all of them wait. A safety look is a request about a parked wait, in case a message was lost. It is answered at once, and does not count as an open request. The dollars are for all waiters, for an hour, with the prices of [what it costs](cost.md) and one connection for each waiter.

${waitingTable(push)}

${crowd.waits} waits on one connection, in the queues of several locks: ${crowd.told} messages of grants, ${crowd.unexpected} of them repeated, and ${crowd.inOrder} grants in the order of their queue.`;
}

const cycles = (results: Results) => `## An uncontended cycle

Acquire a free lock and release it, against two single writes of the same store: one client over many locks.

${cycleTable(results)}

![Throughput by number of clients](benchmarks/throughput.svg)

Acquires and releases per second with many clients, each on its own lock, compared with the single writes of as many clients (in brackets: with those of one client).

${throughputTable(results)}

Dollars per million cycles, from the requests to DynamoDB that were counted and the prices of [what it costs](cost.md). Events on a bus are not included:

${cycleCostTable(results)}`;

const crashes = (results: Results) => `## A holder that crashes

The time from the holder's last request until the next waiter is granted. Holdfast adds a grace of 250 ms, because clocks differ. With the usual lease of 30 s that is a hundredth. etcd raises a lease to at least 2 s. For ZooKeeper, the session is the lease. dynamodb-lock-client's FailClosed never grants the lock again. PostgreSQL does so when the connection breaks, and not before: a holder that hangs holds for ever.

${crashTable(results)}

## Renewing a hundred locks

Requests to DynamoDB in a third of a lease: all clients here renew that often. ZooKeeper's session and a shared etcd lease need one ping too, for any number of locks.

${renewalsTable(results)}

## A stampede

Two hundred callers try at once for a held lock. The tier \`efficiency\` answers them from memory after the first.

${stampedeTable(results)}

## Several locks at once

Acquiring and releasing 2, 10 and 50 locks: in single writes of the same store, and in requests. Holdfast and redlock take all or none. With the others a caller takes them one by one, and may get only some of them.

${multiLockTable(results)}`;

const place = (clients: number | null) => (clients === null ? 'at no number measured' : `from ${clients} clients on`);

const increments = (results: Results) => `## Compare-and-swap or lock

Several clients raise one counter through the service. Either they read, write if nobody wrote in between, and otherwise begin again after a random pause. Or they wait for the lock first. Rates are increments in the time of one single write.

![Requests per increment](benchmarks/increment.svg)

${incrementTable(results)}

The lock is faster ${place(crossover(results, 'rate'))}, and needs fewer requests ${place(crossover(results, 'requestsPerIncrement'))}. Below that, compare-and-swap is the better tool.`;

function rest({ memory, imports }: Results): string {
  const lines = [
    memory === null
      ? undefined
      : `Resident memory of the service over ${memory.cycles} cycles of 16 clients on new names: the second half took ${figure(memory.growth)} times as much as the first, after the warm-up.`,
    imports === null
      ? undefined
      : `Importing the HTTP function, as a cold start does, takes ${figure(imports.ratio)} times as long as importing the DynamoDB client alone. Its bundle has ${imports.kilobytes} kB.`,
  ];
  return `## The service itself

${lines.filter((line) => line !== undefined).join('\n\n')}

## Running it

    npm ci
    node test/bench/install-peers.ts   # the peers' packages and, as root on Debian, their servers; starts nothing
    npm run bench                      # five to six minutes; leaves out what is not installed
    npm run bench -- --quick --out /tmp/bench

The benchmark starts every server on loopback and in its own folder, and ends it. Do not use the machine during a run.`;
}

/** The whole report. It uses only what a run found. */
export const reportOf = (results: Results): string => {
  const sections = [head, targets, comparable, handOffs, pushes, cycles, crashes, increments, rest];
  const texts = sections.map((section) => section(results)).filter((text) => text !== '');
  return `${wrapProse(texts.join('\n\n'))}\n`;
};
