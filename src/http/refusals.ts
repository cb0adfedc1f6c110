import type middy from '@middy/core';
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import type { MeasureName } from '../notify/measures.ts';
import type { Meter } from '../notify/ports.ts';
import { type ProblemCode, toProblem } from './problems.ts';

/** A refusal writes nothing, so the stream never shows it: these are counted where they are answered. */
const counted: Partial<Record<ProblemCode, MeasureName>> = { 'lock-held': 'Refusals', 'stale-fence': 'StaleFences' };

/** Counts the refusals that tell of contention, or of somebody who writes too late. */
export function countRefusals(
  meter: Meter,
): middy.MiddlewareObj<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2> {
  return {
    onError: ({ event, error }) => {
      const name = counted[toProblem(error).code];
      const namespace = event.pathParameters?.ns;
      if (name === undefined || namespace === undefined) return;
      meter.record([{ namespace, name, unit: 'Count', value: 1 }]);
      meter.flush();
    },
  };
}
