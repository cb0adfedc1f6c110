import { deployedService } from '../src/http/deployed.ts';
import { createHttpHandler } from '../src/http/handler.ts';
import { createLogger } from '../src/http/logger.ts';

/** Every HTTP route. */
export const handler = createHttpHandler(deployedService(process.env), createLogger('holdfast-http'));
