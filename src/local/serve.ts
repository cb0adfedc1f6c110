import { join } from 'node:path';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import type { DynamoDBStreamEvent } from 'aws-lambda';
import { createHandler } from '../http/handler.ts';
import type { Service } from '../http/service.ts';
import { changedAtIn, changedLock, type LockChange, lockChangeOf, revisionOf } from '../notify/lock-change.ts';
import { passesFilter, publisherFilter } from '../notify/stream-filter.ts';
import { afterwards, createLogger } from '../process/logger.ts';
import { serviceOn } from '../process/wiring.ts';
import { SocketStore } from '../store/sockets.ts';
import { awsTable, type createDynamoDBClient, localPatience } from '../table/aws/table.ts';
import { defined } from '../tools/collections.ts';
import type { Log } from '../tools/log.ts';
import { createWebsocketHandler } from '../websocket/handler.ts';
import { ConnectionTable } from './connections.ts';
import { type Engine, startEngine } from './engine.ts';
import { type Gateway, type Mount, startGateway } from './gateway.ts';
import { createNotifications, type Notifications } from './notifications.ts';
import type { LocalOptions } from './options.ts';
import { awaitingPace } from './pump/pace.ts';
import { fileCheckpoints, memoryCheckpoints, type Pump, type PumpOptions, startPump } from './pump.ts';
import { StartError } from './start-error.ts';
import { ensureTable } from './table.ts';
import { type WebsocketOptions, watchPath } from './websocket.ts';

export { StartError } from './start-error.ts';

export interface Running {
  readonly url: string;
  readonly engine: Engine;
  /** Resolves if the engine ends without being asked to. */
  readonly failed: Promise<string>;
  /** Answers some paths beside the service, on the same port. */
  mount(mount: Mount): void;
  /** How far the deliveries are behind the writes to the table. */
  behindMs(): number;
  /** Namespaces in which a lock changed since the start. */
  namespaces(): readonly string[];
  stop(): Promise<void>;
}

/** Starts the whole service on this machine: engine, table, handlers, gateway, and the pump that reads the stream. */
export async function serve(options: LocalOptions, log: Log = afterwards(createLogger('holdfast'))): Promise<Running> {
  const storage = options.memory ? { memory: true as const } : { dataFolder: options.dataFolder };
  const engine = await startEngine({ engine: options.engine, region: options.region, logger: log, ...storage });
  try {
    return await serveOn(engine, options, log);
  } catch (error) {
    await engine.stop();
    throw error;
  }
}

async function serveOn(engine: Engine, options: LocalOptions, log: Log): Promise<Running> {
  const address = { endpoint: engine.endpoint, region: options.region, credentials: engine.credentials };
  const isRemote = engine.endpoint.startsWith('https:');
  const { client, table } = awsTable(address, isRemote ? undefined : localPatience);
  await ensureTable(client, options.table);
  const access = { table, tableName: options.table };
  const service = serviceOn({
    access,
    alone: true,
    engine: engine.name,
    // Uses the host name that the caller used, so that a proxy in between also forwards the socket.
    socketUrl: (host = 'localhost') => `ws://${host}${watchPath}`,
    pollMs: options.pollMs,
  });
  const connections = new ConnectionTable();
  const { locks } = service;
  const { region, eventsUrl, tasksUrl, callbacksUrl } = options;
  const settings = { region, eventsUrl, tasksUrl, callbacksUrl, connections, log };
  const notifications = createNotifications({ locks, access, ...settings });
  const namespaces = new Set<string>();
  const pump = startPumps(service, { tables: client, isRemote, options, address, log, notifications, namespaces });
  const handler = createWebsocketHandler({
    watchers: notifications.watchers,
    sockets: new SocketStore(access),
    locks,
    // A caller without a ticket has sent the token, or is on this machine.
    needsTicket: false,
    log,
  });
  const websocket = { handler, connections };
  const gateway = await openGateway(service, options, log, websocket).catch(async (error: unknown) => {
    await pump.stop();
    throw error;
  });
  await pump.ready;
  notifications.start();
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    await gateway.close();
    await pump.stop();
    await notifications.stop();
    client.destroy();
    await engine.stop();
  };
  return {
    url: gateway.url,
    engine,
    mount: (mount) => gateway.mount(mount),
    behindMs: () => pump.behindMs(),
    namespaces: () => [...namespaces],
    failed: engine.exited.then((exit) => `The engine ended: ${JSON.stringify(exit)}.`),
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

async function openGateway(
  service: Service,
  options: LocalOptions,
  log: Log,
  websocket: WebsocketOptions,
): Promise<Gateway> {
  const { host, port, token } = options;
  try {
    return await startGateway({ host, port, token, handler: createHandler(service, log), websocket });
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'EADDRINUSE')
      throw new StartError(
        `Port ${port} is in use; stop the program that listens there, or choose another port with --port.`,
      );
    if (code === 'EACCES')
      throw new StartError(`Port ${port} may not be used by this user; choose one above 1023 with --port.`);
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
      throw new StartError(`${host} is not an address of this machine; choose another with --host.`);
    throw error;
  }
}

/** DynamoDB allows five reads a second from a shard, and bills each. Two pumps read it. A local engine is read far more often. */
const remotePace = { busyMs: 500, idleMaxMs: 1_000 };
/** Nobody waits for the history. Changes that come together are stored together, which leaves the engine free for callers. */
const publishingPace = { busyMs: 250, idleMaxMs: 250 };
/**
 * Half of what a stream gives at once. A busy table writes hundreds of changes a second, and most of them are not about
 * locks. With Lambda's 100, a pump would read more often than the engine can answer.
 */
const recordsPerRead = 500;

interface PumpSetting {
  readonly tables: DynamoDBClient;
  readonly isRemote: boolean;
  readonly options: LocalOptions;
  readonly address: Parameters<typeof createDynamoDBClient>[0];
  readonly log: Log;
  readonly notifications: Notifications;
  readonly namespaces: Set<string>;
}

/**
 * Two pumps read the stream, as two functions do in a deployment. One delivers, and one writes the history, which takes
 * the engine far longer. So no delivery waits for the history of other locks.
 */
function startPumps(service: Service, setting: PumpSetting): Pick<Pump, 'ready' | 'stop'> & { behindMs(): number } {
  const { notifications, namespaces, isRemote } = setting;
  const delivering = startStreamPump('deliveries', setting, {
    pace: isRemote ? remotePace : awaitingPace(() => service.locks.waits.openCount > 0),
    handler: (event) => {
      learnFrom(event, service);
      return notifications.deliver(event);
    },
  });
  const publishing = startStreamPump('history', setting, {
    pace: isRemote ? remotePace : publishingPace,
    handler: (event) => {
      noteNamespaces(event, namespaces);
      return notifications.publish(event);
    },
  });
  const pumps = [delivering, publishing];
  const ready = Promise.all(pumps.map((pump) => pump.ready)).then(() => undefined);
  // If the gateway can't be opened, nobody waits for it.
  ready.catch(() => {});
  return {
    ready,
    behindMs: () => delivering.stats().behindMs,
    stop: async () => void (await Promise.all(pumps.map((pump) => pump.stop()))),
  };
}

function startStreamPump(
  name: string,
  { tables, isRemote, options, address, log }: PumpSetting,
  more: Pick<PumpOptions, 'handler' | 'pace'>,
): Pump {
  return startPump({
    name,
    client: new DynamoDBStreamsClient(defined(address)),
    // Called again after a failure, because the table may have been re-created.
    streamArn: () => ensureTable(tables, options.table),
    checkpoints: options.memory
      ? memoryCheckpoints()
      : fileCheckpoints(join(options.dataFolder, `stream-${options.table}-${name}.json`), log),
    // A shared table's stream has a day of changes that others have already delivered. Our own stream begins with the
    // first change.
    startAt: isRemote ? 'LATEST' : 'TRIM_HORIZON',
    onDeadLetter: (records, error) => log.error('dead-letter', { records: records.length, error: String(error) }),
    // The publisher's filter is enough, because it lets through every record that the notifier needs.
    filter: (record) => passesFilter(record, publisherFilter),
    batchSize: recordsPerRead,
    writtenAt: changedAtIn,
    logger: log,
    ...more,
  });
}

/** More namespaces than a person would choose from. */
const namespacesMax = 200;

/** Notes the namespaces in use. */
function noteNamespaces(event: DynamoDBStreamEvent, namespaces: Set<string>): void {
  for (const record of event.Records) {
    const key = changedLock(record);
    if (key !== undefined && namespaces.size < namespacesMax) namespaces.add(key.namespace);
  }
}

/** Wakes the next waiter here if the stream shows a release in another process. */
function learnFrom(event: DynamoDBStreamEvent, { locks }: Service): void {
  for (const record of event.Records) {
    const key = changedLock(record);
    if (key === undefined) continue;
    if (!locks.cache.isNewer(key, revisionOf(record))) continue;
    try {
      locks.cache.learn(key, (lockChangeOf(record) as LockChange).after);
    } catch {
      // The notifier reads the same records, and reports one that can't be read.
    }
  }
}
