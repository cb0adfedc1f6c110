/** The ports of the notifier and the reaper on AWS, from the environment that the stack gives their functions. */
import { ApiGatewayManagementApiClient } from '@aws-sdk/client-apigatewaymanagementapi';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { SFNClient } from '@aws-sdk/client-sfn';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { LockContext } from '../../service/context.ts';
import { HistoryStore } from '../../store/history.ts';
import { AwaitedLocks, DeliveryStore, TimerNotes } from '../../store/notices.ts';
import { WatcherStore } from '../../store/watchers.ts';
import type { TableAccess } from '../../table/item-table.ts';
import { systemClock } from '../../time/clock.ts';
import { systemTimers } from '../../time/timers.ts';
import type { Log } from '../../tools/log.ts';
import { HandOffs } from '../hand-offs.ts';
import type { NotifierPorts, PublisherPorts } from '../ports.ts';
import type { ReaperPorts } from '../reaper.ts';
import { boundedRequests } from './calls.ts';
import { ApiGatewayConnections, LambdaCallbacks, StepFunctionsTasks } from './deliveries.ts';
import { EventBridgeBus } from './event-bus.ts';
import { EmbeddedMeter } from './meter.ts';
import { SqsTimers } from './timers.ts';

interface Setting {
  readonly access: TableAccess;
  readonly log: Log;
  readonly locks: LockContext;
  readonly busName: string;
  readonly timerQueueUrl: string;
  readonly websocketEndpoint: string;
}

/** It has no locks, because no lock depends on it. */
interface PublisherSetting extends Omit<Setting, 'locks' | 'busName' | 'timerQueueUrl'> {
  /** Missing if events are not published. */
  readonly busName?: string | undefined;
  readonly keepsHistory: boolean;
  /** Lock namespaces with their own metrics. */
  readonly metricNamespaces: readonly string[];
}

const timersOf = ({ access, timerQueueUrl }: Pick<Setting, 'access' | 'timerQueueUrl'>) =>
  new SqsTimers({
    client: new SQSClient(boundedRequests),
    queueUrl: timerQueueUrl,
    notes: new TimerNotes(access),
  });

const busOf = (busName: string, log: Log) =>
  new EventBridgeBus({ client: new EventBridgeClient(boundedRequests), busName, log });

const connectionsAt = (endpoint: string) =>
  new ApiGatewayConnections({ client: new ApiGatewayManagementApiClient({ ...boundedRequests, endpoint }) });

export function awsNotifierPorts(setting: Setting): NotifierPorts {
  const { locks, access, busName, websocketEndpoint, log } = setting;
  return {
    locks,
    bus: busOf(busName, log),
    tasks: new StepFunctionsTasks({ client: new SFNClient(boundedRequests) }),
    callbacks: new LambdaCallbacks({ client: new LambdaClient(boundedRequests) }),
    connections: connectionsAt(websocketEndpoint),
    timers: timersOf(setting),
    deliveries: new DeliveryStore(access),
    meter: new EmbeddedMeter({ serviceName: 'notifier' }),
    log,
  };
}

/** Delivers hand-offs right after the write, for the functions that write them. */
export const awsHandOffs = (setting: Omit<Setting, 'busName' | 'timerQueueUrl'>): HandOffs => {
  const { locks, access, websocketEndpoint, log } = setting;
  return new HandOffs({
    locks,
    connections: connectionsAt(websocketEndpoint),
    deliveries: new DeliveryStore(access),
    log,
  });
};

export function awsPublisherPorts(setting: PublisherSetting): PublisherPorts {
  const { access, busName, keepsHistory, websocketEndpoint, metricNamespaces, log } = setting;
  return {
    clock: systemClock,
    pauses: systemTimers,
    bus: busName === undefined ? undefined : busOf(busName, log),
    history: keepsHistory ? new HistoryStore(access) : undefined,
    connections: connectionsAt(websocketEndpoint),
    watchers: new WatcherStore(access),
    meter: new EmbeddedMeter({ serviceName: 'publisher', namespaces: metricNamespaces }),
    log,
  };
}

export function awsReaperPorts(setting: Omit<Setting, 'busName' | 'websocketEndpoint'>): ReaperPorts {
  const { locks, access, log } = setting;
  return { locks, timers: timersOf(setting), awaited: new AwaitedLocks(access), log };
}
