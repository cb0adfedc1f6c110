import { isIP } from 'node:net';
import { defaultTableName } from '../table/shape.ts';

export type EndpointUrl = `http://${string}` | `https://${string}`;
export const engineNames = ['auto', 'dynamodb-local', 'dynoxide', 'memory'] as const;
export type EngineChoice = (typeof engineNames)[number] | EndpointUrl;

export interface LocalOptions {
  /** 0 asks the operating system for any free port. */
  port: number;
  host: string;
  dataFolder: string;
  /** Keep nothing. `dataFolder` is then not used. */
  memory: boolean;
  table: string;
  engine: EngineChoice;
  region: string;
  /** How long one waiting request stays open. */
  pollMs: number;
  /** Whether the console may do more than read. */
  consoleMayChange: boolean;
  /** If set, every request must carry it. It is a secret and has no flag, because any user can list command lines. */
  token?: string | undefined;
  /** Where events are posted, instead of to EventBridge. */
  eventsUrl?: string | undefined;
  /** Where task tokens are answered: an endpoint with Step Functions' API, such as Step Functions Local. */
  tasksUrl?: string | undefined;
  /** Where callbacks of durable functions are completed: an endpoint with Lambda's API. */
  callbacksUrl?: string | undefined;
}

export const defaultOptions: LocalOptions = {
  // Not one of the default ports of web frameworks (3000, 5000, 8000, 8080).
  port: 4100,
  host: '127.0.0.1',
  dataFolder: '.holdfast',
  memory: false,
  table: defaultTableName,
  engine: 'auto',
  region: 'us-east-1',
  // Long enough that waiting costs little, and well under the 30 s of API Gateway.
  pollMs: 20_000,
  consoleMayChange: false,
};

/** A poll must be answered before API Gateway's limit of 30 s. The local service keeps the limits of a deployment. */
export const pollMsMax = 29_000;
/** Below a tenth of a second, a long poll would be a busy loop. */
export const pollMsMin = 100;

export const isWebUrl = (text: string): text is EndpointUrl =>
  URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);

/** True if only this machine can reach a server that listens on the host. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
