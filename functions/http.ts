import middy from '@middy/core';
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import { apiGatewayHandler } from '../src/http/api-gateway.ts';
import { createHandler } from '../src/http/handler.ts';
import { countRefusals } from '../src/http/refusals.ts';
import { EmbeddedMeter } from '../src/notify/aws/meter.ts';
import { awsHandOffs } from '../src/notify/aws/ports.ts';
import { deployedService, deployedTable, metricNamespaces, requireVariable } from '../src/process/deployed.ts';
import { createLogger } from '../src/process/logger.ts';

const env = process.env;
const access = deployedTable(env);
const log = createLogger('holdfast-http');
const service = deployedService(env, access);
const websocketEndpoint = requireVariable(env, 'HOLDFAST_WEBSOCKET_ENDPOINT');
const handOffs = awsHandOffs({ access, locks: service.locks, websocketEndpoint, log });

/**
 * Every HTTP route. Each wait has its own deadline. So middy's early answer, which needs a timer for every request, is
 * off.
 */
export const handler = middy<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>({
  timeoutEarlyInMillis: 0,
}).handler(
  apiGatewayHandler(
    createHandler(service, log, {
      onProblem: countRefusals(new EmbeddedMeter({ serviceName: 'http', namespaces: metricNamespaces(env) })),
      handOffs,
    }),
    { namespacesClaim: env.HOLDFAST_NAMESPACES_CLAIM },
  ),
);
