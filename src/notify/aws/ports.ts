/** The ports of the notifier and the reaper on AWS, from the environment that the stack gives their functions. */
import { ApiGatewayManagementApiClient } from '@aws-sdk/client-apigatewaymanagementapi';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { SFNClient } from '@aws-sdk/client-sfn';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import type { LockContext } from '../../service/context.ts';
import { DynamoDBAwaitedLocks } from '../../store/dynamodb/awaited-items.ts';
import { DynamoDBWatchers } from '../../store/dynamodb/connection-items.ts';
import { DynamoDBHistory } from '../../store/dynamodb/history-items.ts';
import { DynamoDBTellings } from '../../store/dynamodb/telling-items.ts';
import { DynamoDBTimerNotes } from '../../store/dynamodb/timer-items.ts';
import type { NotifierPorts, NotifyLog } from '../ports.ts';
import type { ReaperPorts } from '../reaper.ts';
import { ApiGatewayConnections } from './connections.ts';
import { EventBridgeBus } from './event-bus.ts';
import { EmbeddedMeter } from './meter.ts';
import { boundedRequests } from './request-handler.ts';
import { StepFunctionsTasks } from './task-tokens.ts';
import { SqsTimers } from './timers.ts';

interface Table {
  readonly locks: LockContext;
  readonly client: DynamoDBDocumentClient;
  readonly tableName: string;
  readonly log: NotifyLog;
}

export interface NotifierSetting extends Table {
  readonly busName: string;
  readonly timerQueueUrl: string;
  readonly websocketEndpoint: string;
}

const timersOf = ({ client, tableName, timerQueueUrl }: Table & { readonly timerQueueUrl: string }) =>
  new SqsTimers({
    client: new SQSClient(boundedRequests),
    queueUrl: timerQueueUrl,
    notes: new DynamoDBTimerNotes({ client, tableName }),
  });

export function awsNotifierPorts(setting: NotifierSetting): NotifierPorts {
  const { locks, client, tableName, busName, websocketEndpoint, log } = setting;
  return {
    locks,
    bus: new EventBridgeBus({ client: new EventBridgeClient(boundedRequests), busName, log }),
    tasks: new StepFunctionsTasks({ client: new SFNClient(boundedRequests) }),
    connections: new ApiGatewayConnections({
      client: new ApiGatewayManagementApiClient({ ...boundedRequests, endpoint: websocketEndpoint }),
    }),
    timers: timersOf(setting),
    history: new DynamoDBHistory({ client, tableName }),
    watchers: new DynamoDBWatchers({ client, tableName }),
    tellings: new DynamoDBTellings({ client, tableName }),
    meter: new EmbeddedMeter({ serviceName: 'notifier' }),
    log,
  };
}

export function awsReaperPorts(setting: Table & { readonly timerQueueUrl: string }): ReaperPorts {
  const { locks, client, tableName, log } = setting;
  return { locks, timers: timersOf(setting), awaited: new DynamoDBAwaitedLocks({ client, tableName }), log };
}
