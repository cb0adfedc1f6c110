import { LambdaClient } from '@aws-sdk/client-lambda';
import { SFNClient } from '@aws-sdk/client-sfn';
import { boundedRequests } from '../notify/aws/calls.ts';
import { LambdaCallbacks, StepFunctionsTasks } from '../notify/aws/deliveries.ts';
import type { Completions, Delivered } from '../notify/ports.ts';
import type { Log } from '../tools/log.ts';
import { localCredentials } from './engine/endpoint.ts';

interface Setting {
  readonly url: string | undefined;
  readonly region: string;
  readonly log: Log;
}

const clientOptions = (url: string, region: string) => ({
  ...boundedRequests,
  endpoint: url,
  region,
  credentials: localCredentials,
});

/** Answers task tokens at the URL that the user set. Step Functions Local has the same API. */
export function localTasks({ url, region, log }: Setting): Completions {
  if (url === undefined) return undeliverable(log, "A task token can't be answered: HOLDFAST_TASKS_URL is not set.");
  return new StepFunctionsTasks({ client: new SFNClient(clientOptions(url, region)) });
}

/** Completes callbacks of durable functions at the URL that the user set. The endpoint must have Lambda's API. */
export function localCallbacks({ url, region, log }: Setting): Completions {
  if (url === undefined) return undeliverable(log, "A callback can't be completed: HOLDFAST_CALLBACKS_URL is not set.");
  return new LambdaCallbacks({ client: new LambdaClient(clientOptions(url, region)) });
}

/** Without a URL nothing can be delivered. The grant goes to the next waiter, and the log says why. */
function undeliverable(log: Log, why: string): Completions {
  const gone = (): Promise<Delivered> => {
    log.error(why);
    return Promise.resolve('gone');
  };
  return { succeed: gone, fail: gone };
}
