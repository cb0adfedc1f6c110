import type { Results } from '../results.ts';
import { figure, table } from './format.ts';
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
  rateTable,
  renewalsTable,
  requestsTable,
  stampedeTable,
  storesTable,
  throughputTable,
} from './tables.ts';
import { targetsOf } from './targets.ts';

function head({ date, commit, quick, machine, absent }: Results): string {
  const missing = absent.length === 0 ? '' : `\n\nNot there in this run: ${absent.map(({ why }) => why).join(' ')}`;
  const warning = quick
    ? '\n\n**This was a quick run, which looks at every cell only briefly: its figures are for trying out the benchmark, not for quoting.**'
    : '';
  return `# Benchmarks

Written by \`npm run bench\` on ${date} at commit \`${commit}\`; drawn anew from \`benchmarks.json\` by \`node test/bench/main.ts --report-only\`. Do not edit.

${machine.os}, ${machine.cores} cores, ${machine.memoryGb} GB, Node ${machine.node}. Clients, service and servers share these cores.${warning}${missing}

No figure here is a time. Machines differ, and this one is shared: each figure is a count, a price, or a ratio to **one single write of the same
store**, measured next to it in the same run. A hand-off of 2.0 takes as long as two writes, whatever a write takes.`;
}

const comparable = (results: Results) => `## What is comparable, and what is not

${storesTable(results)}

- **On DynamoDB** everything can be compared directly: one engine, one machine, the same minutes. A single write is one to the table of ours that is measured, or, for a peer, to one like its own: with a stream and indexes
  for Holdfast, with neither for its peers, which makes theirs cheaper. The engine is an emulator. It has no network before it, it slows down with the size of an item more than DynamoDB does, and with every change of a table that has a
  stream, so each part of the run has a new one. Counts of requests and of capacity units are what AWS would bill.
- **Other stores** are compared in their own writes: what locking costs on top of what the store costs anyway. Their writes are not equal. One node of each was
  run, without the replication that production has, which flatters them; where a write is synced to disk the unit is dear, which makes their ratios small. Redis syncs once a second. An advisory lock of PostgreSQL
  writes nothing at all and is gone with the connection, so its ratio to a synced commit says little but that memory is faster than disk.
- **Pollers** ask every 50 ms, as our own direct mode does for who is next: their hand-off is a choice between time and requests. All waiters live in one process and share connections where the protocol
  lets them, which spares the peers more than it would in the wild.
- Only Holdfast, ZooKeeper and etcd give a number that a resource can check (a fence); dynamodb-lock-client's FailOpen gives one that restarts when the item is deleted. The others give nothing that makes a late write harmless.

${contestantsTable(results)}`;

const targets = (results: Results) => `## Targets

${table(
  ['target', 'found', ''],
  targetsOf(results).map(({ target, found, met }) => [target, found, met ? 'met' : '**missed**']),
)}

Where the time of a cycle over HTTP goes: what the service itself computes (routes, validation, rules, values) is about a hundredth of a write, timed with a store
that answers at once. The rest is one more process in the way, on cores that it shares with the engine and the caller: an empty request there and back is a fifth of a write. And
the engine is busy for those who call with what a raw writer's table does not have: history, which the service writes from the stream. With 200 waiting, a hand-off
moves an item of some 25 KB through the engine, which takes most of the time of a second write; runs differ, from 1.99 to 2.25 on this machine.

${peersTable(results)}

The second table is how many times as much as Holdfast over HTTP each of the others takes, for the same work: above 1, Holdfast takes less. The hand-off is in each store's own writes.`;

const handOffs = (results: Results) => `## A contended mutex

![Hand-off by number of waiters](benchmarks/hand-off.svg)

From the call of release to the moment at which the next waiter has its answer, in single writes: p50 / p99 (hand-offs seen). Everybody else has settled before each of them. Single writes are taken in between, or, where waiters poll, before and after.

${handOffTable(results)}

Order inversions: hand-offs that went to somebody who had not waited longest.

${inversionsTable(results)}

Hand-offs in the time of one single write, with everybody giving back at once what it gets, and coming back when the next one has it (hand-offs seen).

${rateTable(results)}

![Requests per hand-off](benchmarks/requests.svg)

Requests to the store per hand-off in the same relay, the joining of the next waiter included, and in brackets what goes beyond the least that a join, a grant and a release take: wake-ups that brought nothing.

${requestsTable(results)}

What that costs in DynamoDB's capacity, in dollars per million hand-offs. A queue is part of the lock's item, and a write is billed by the item's size: long queues cost write units, not requests.

${handOffCostTable(results)}`;

const cycles = (results: Results) => `## An uncontended cycle

Acquire a free lock and release it, against two single writes of the same store: one client over many locks.

${cycleTable(results)}

![Throughput by number of clients](benchmarks/throughput.svg)

Acquires and releases per second with many clients, each on a lock of its own, against the single writes that as many clients get done (and, in brackets, against those of one client).

${throughputTable(results)}

Dollars per million cycles, from requests that were counted on the way to DynamoDB and prices of [what it costs](cost.md). Deployed, the service also tells an event bus, which is not among these:

${cycleCostTable(results)}`;

const crashes = (results: Results) => `## A holder that crashes

From its last sign of life until the next waiter is granted. Ours adds a quarter of a second of grace for clocks that differ, whatever the lease: with the usual 30 s it is a hundredth. etcd raises a lease to 2 s at least, and ZooKeeper's session stands for a lease.
dynamodb-lock-client's FailClosed never grants it again. PostgreSQL does so when the connection breaks, and not before: a holder that hangs holds for ever.

${crashTable(results)}

## Renewing a hundred locks

Requests to DynamoDB in a third of a lease, which is how often everybody here renews. ZooKeeper's session and a shared etcd lease are one ping, too, whatever hangs on them.

${renewalsTable(results)}

## A stampede

Two hundred callers try at once for a lock that somebody holds. The tier \`efficiency\` answers them from memory after the first.

${stampedeTable(results)}

## Several locks at once

Taking and giving back 2, 10 and 50 locks: in single writes of the same store, and in requests. All or nothing is offered by Holdfast and by redlock; with the others one takes them one by one, and can be left with half.

${multiLockTable(results)}`;

const place = (clients: number | null) => (clients === null ? 'at no number measured' : `from ${clients} clients on`);

const increments = (results: Results) => `## Compare-and-swap or lock

Raising one counter that others raise, too, through the service: read, write if nobody wrote in between, else again with jittered back-off; or wait for the lock first. Rates are increments in the time of one single write.

![Requests per increment](benchmarks/increment.svg)

${incrementTable(results)}

The lock gets more done ${place(crossover(results, 'rate'))}, and asks less of the store ${place(crossover(results, 'requestsPerIncrement'))}. Below that, compare-and-swap is the better tool.`;

function rest({ memory, imports }: Results): string {
  const lines = [
    memory === null
      ? undefined
      : `Resident memory of the service over ${memory.cycles} cycles of 16 clients on ever new names: ${figure(memory.growth)} times, comparing the second half with the first once it was warm.`,
    imports === null
      ? undefined
      : `Importing the HTTP function, as a cold start does, against importing nothing but the bare DynamoDB client: ${figure(imports.ratio)}. Its bundle has ${imports.kilobytes} kB.`,
  ];
  return `## The service itself

${lines.filter((line) => line !== undefined).join('\n\n')}

## Running it

    npm ci
    node test/bench/install-peers.ts   # the peers' packages and, as root on Debian, their servers; starts nothing
    npm run bench                      # five to six minutes; leaves out what is not installed
    npm run bench -- --quick --out /tmp/bench

Every server is started by the benchmark on loopback and in a folder of its own, and ends with it. Leave the machine alone meanwhile.`;
}

/** The whole report, from nothing but what a run found. */
export const reportOf = (results: Results): string =>
  `${[head, targets, comparable, handOffs, cycles, crashes, increments, rest].map((section) => section(results)).join('\n\n')}\n`;
