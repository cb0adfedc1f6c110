import { LambdaClient } from '@aws-sdk/client-lambda';
import { SFNClient } from '@aws-sdk/client-sfn';
import { LambdaCallbacks } from '../notify/aws/durable-callbacks.ts';
import { boundedRequests } from '../notify/aws/request-handler.ts';
import { StepFunctionsTasks } from '../notify/aws/task-tokens.ts';
import type { Completions, Delivered, NotifyLog } from '../notify/ports.ts';
import { localCredentials } from './engine/endpoint.ts';

interface Setting {
  readonly url: string | undefined;
  readonly region: string;
  readonly log: NotifyLog;
}

const clientOptions = (url: string, region: string) => ({
  ...boundedRequests,
  endpoint: url,
  region,
  credentials: localCredentials,
});

/** Task tokens are answered at an endpoint of the user's choice; Step Functions Local speaks the same API. */
export function localTasks({ url, region, log }: Setting): Completions {
  if (url === undefined) return nobodys(log, 'A task token can not be answered: HOLDFAST_TASKS_URL is not set.');
  return new StepFunctionsTasks({ client: new SFNClient(clientOptions(url, region)) });
}

/** Callbacks of durable functions are completed at an endpoint of the user's choice, which speaks Lambda's API. */
export function localCallbacks({ url, region, log }: Setting): Completions {
  if (url === undefined) return nobodys(log, 'A callback can not be completed: HOLDFAST_CALLBACKS_URL is not set.');
  return new LambdaCallbacks({ client: new LambdaClient(clientOptions(url, region)) });
}

/** Nowhere to deliver means that the waiter can't be told: its grant goes to the next one, and the log says why. */
function nobodys(log: NotifyLog, why: string): Completions {
  const gone = (): Promise<Delivered> => {
    log.error(why);
    return Promise.resolve('gone');
  };
  return { succeed: gone, fail: gone };
}
