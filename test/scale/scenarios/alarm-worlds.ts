/** Worlds with a fault, each with the alarms that must fire, and worlds without faults, in which no alarm may fire. */
import type { EventBus } from '../../../src/notify/ports.ts';
import { ScaleWorld, type Waiting, type WorldOptions } from '../world.ts';

export interface AlarmWorld {
  readonly what: string;
  /** The alarms that must fire. None in a world without faults. */
  readonly fires: readonly string[];
  readonly minutes: number;
  readonly options?: WorldOptions;
  /** Called after a minute without faults. */
  readonly begin: (world: ScaleWorld) => void;
}

const minuteMs = 60_000;
/** A bus that was deleted, or that the publisher may not write to. */
const refusingBus: EventBus = { publish: async (events) => events.map((event) => ({ event, isFinal: true })) };

/** So long that the next waiter parks, because a polling waiter costs the model many steps. */
const holdMs = 8_000;
const ignore = () => undefined;

/** Some clients take one lock again and again, by push. One takes it sometimes and dies. One is refused. */
function visit(world: ScaleWorld): void {
  for (let visitor = 0; visitor < 3; visitor++) void visitAgain(world, 'push');
  void dieAgain(world);
  void beRefused(world);
}

async function visitAgain(world: ScaleWorld, waiting: Waiting): Promise<void> {
  const client = world.client(waiting);
  for (;;) {
    const held = await client.acquire('hot', { leaseMs: 20_000, waitMs: 120_000 }).catch(ignore);
    await world.pause(holdMs);
    await held?.release().catch(ignore);
  }
}

async function dieAgain(world: ScaleWorld): Promise<void> {
  const client = world.client('push');
  for (;;) {
    await world.pause(100_000);
    await client.acquire('hot', { leaseMs: 5_000, waitMs: 120_000, autoRenew: false }).catch(ignore);
  }
}

/** Is refused by a held lock, and by a record with a higher floor. */
async function beRefused(world: ScaleWorld): Promise<void> {
  const client = world.client('push');
  const record = client.record('cursor');
  await record.put(1, 'absent', { fence: 2 }).catch(ignore);
  for (;;) {
    await client.tryAcquire('hot', { leaseMs: 5_000, autoRenew: false }).catch(ignore);
    await record.put(2, 'present', { fence: 1 }).catch(ignore);
    await world.pause(20_000);
  }
}

/** Opens and closes connections, as short-lived processes do. */
function comeAndGo(world: ScaleWorld): void {
  const one = async () => {
    for (;;) {
      const client = world.client('push');
      await client.acquire('hot', { leaseMs: 20_000, waitMs: 10_000 }).catch(ignore);
      await client.close().catch(ignore);
      await world.pause(5_000);
    }
  };
  void one();
}

/** More callers than a lock can serve. */
function hammer(world: ScaleWorld): void {
  const one = async () => {
    const client = world.client('direct');
    const until = world.time.now() + 2_000;
    while (world.time.now() < until) await client.tryAcquire('hot', { leaseMs: 20_000 }).catch(ignore);
  };
  for (let caller = 0; caller < 10; caller++) void one();
}

export const alarmWorlds: readonly AlarmWorld[] = [
  {
    what: 'calm: waiting in every way, and a holder that dies',
    fires: [],
    minutes: 4,
    begin: (world) => {
      void visitAgain(world, 'long poll');
      void visitAgain(world, 'direct');
    },
  },
  {
    what: 'calm: a deployment',
    fires: [],
    minutes: 3,
    begin: ({ functions }) => {
      for (const one of functions) one.replaceAll();
    },
  },
  {
    what: 'calm: every connection breaks once',
    fires: [],
    minutes: 3,
    begin: ({ sockets }) => sockets.breakAll(),
  },
  {
    what: 'the store is away',
    fires: ['ServerErrors', 'ReaperFailing'],
    minutes: 5,
    begin: ({ table }) => {
      table.isAway = true;
    },
  },
  {
    what: 'more acquires wait than may run at once',
    fires: ['AcquireThrottled'],
    minutes: 3,
    options: { acquireMax: 1 },
    begin: ignore,
  },
  {
    what: 'other functions use up the account',
    fires: ['AcquireThrottled', 'HttpThrottled'],
    minutes: 3,
    options: { concurrency: 1 },
    begin: ignore,
  },
  broken('acquire', ['AcquireFailing', 'ServerErrors']),
  broken('http', ['HttpFailing', 'ServerErrors']),
  {
    ...broken('websocket', ['WebsocketFailing']),
    begin: (world) => {
      comeAndGo(world);
      breakFunction(world, 'websocket');
    },
  },
  broken('notifier', ['NotifierFailing', 'NotifierDeadLetters']),
  broken('publisher', ['PublisherFailing', 'PublisherDeadLetters']),
  { ...broken('reaper', ['ReaperFailing', 'TimerDeadLetters']), minutes: 12 },
  {
    what: 'the notifier gets no execution',
    fires: ['NotifierLate'],
    minutes: 7,
    begin: ({ notifier }) => {
      notifier.trouble = 'throttled';
    },
  },
  {
    what: 'the publisher gets no execution',
    fires: ['PublisherLate'],
    minutes: 14,
    begin: ({ publisher }) => {
      publisher.trouble = 'throttled';
    },
  },
  {
    what: 'timers can not be noted',
    fires: ['NotifierFailing', 'NotifierDeadLetters'],
    minutes: 3,
    begin: ({ table }) => {
      table.throttledKey = 'scale/timer/hot';
    },
  },
  {
    what: 'the history of a lock can not be written',
    fires: ['PublisherFailing', 'PublisherDeadLetters'],
    minutes: 15,
    begin: ({ table }) => {
      table.throttledKey = 'scale/history/hot';
    },
  },
  { what: 'the bus is gone', fires: ['EventsRefused'], minutes: 3, options: { bus: refusingBus }, begin: ignore },
  { what: 'one lock is asked for too often', fires: ['TableThrottled'], minutes: 3, begin: hammer },
];

function broken(
  name: 'acquire' | 'http' | 'websocket' | 'notifier' | 'publisher' | 'reaper',
  fires: string[],
): AlarmWorld {
  return { what: `${name} crashes`, fires, minutes: 3, begin: (world) => breakFunction(world, name) };
}

function breakFunction(world: ScaleWorld, name: Parameters<typeof broken>[0]): void {
  world[name].trouble = 'crashes';
}

/** The world after its minutes. */
export async function liveThrough({ minutes, options, begin }: AlarmWorld, seed: number): Promise<ScaleWorld> {
  const world = new ScaleWorld(seed, options);
  visit(world);
  await world.time.advance(minuteMs);
  begin(world);
  await world.time.advance((minutes - 1) * minuteMs);
  return world;
}
