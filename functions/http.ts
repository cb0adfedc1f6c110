import { deployedService } from '../src/http/deployed.ts';
import { createHttpHandler } from '../src/http/handler.ts';
import { createLogger } from '../src/http/logger.ts';
import { countRefusals } from '../src/http/refusals.ts';
import { EmbeddedMeter } from '../src/notify/aws/meter.ts';

/** Every HTTP route. */
export const handler = createHttpHandler(deployedService(process.env), createLogger('holdfast-http')).use(
  countRefusals(new EmbeddedMeter({ serviceName: 'http' })),
);
