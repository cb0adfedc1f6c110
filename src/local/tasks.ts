import { SFNClient } from '@aws-sdk/client-sfn';
import { boundedRequests } from '../notify/aws/request-handler.ts';
import { StepFunctionsTasks } from '../notify/aws/task-tokens.ts';
import type { Delivered, NotifyLog, TaskTokens } from '../notify/ports.ts';
import { localCredentials } from './engine/endpoint.ts';

/** Task tokens are answered at an endpoint of the user's choice; Step Functions Local speaks the same API. */
export function localTasks({
  url,
  region,
  log,
}: {
  url: string | undefined;
  region: string;
  log: NotifyLog;
}): TaskTokens {
  if (url === undefined) return nobodysTasks(log);
  const client = new SFNClient({ ...boundedRequests, endpoint: url, region, credentials: localCredentials });
  return new StepFunctionsTasks({ client });
}

/** Nowhere to answer a token means that its waiter can't be told: its grant goes to the next one, and the log says why. */
function nobodysTasks(log: NotifyLog): TaskTokens {
  const gone = (): Promise<Delivered> => {
    log.error('A task token can not be answered: HOLDFAST_TASKS_URL is not set.');
    return Promise.resolve('gone');
  };
  return { succeed: gone, fail: gone };
}
