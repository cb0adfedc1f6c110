import type { ProblemCode } from '../contract/problems.ts';
import type { MeasureName } from '../notify/measures.ts';
import type { Meter } from '../notify/ports.ts';
import type { OnProblem } from './handler.ts';

/** A refusal writes nothing, so the stream never shows it. It is counted here, when it is answered. */
const counted: Partial<Record<ProblemCode, MeasureName>> = { 'lock-held': 'Refusals', 'stale-fence': 'StaleFences' };

/** Counts refusals that show contention, and writes that came too late. */
export const countRefusals =
  (meter: Meter): OnProblem =>
  (problem, { parameters: { ns: namespace } }) => {
    const name = counted[problem.code];
    if (name === undefined || namespace === undefined) return;
    meter.record([{ namespace, name, unit: 'Count', value: 1 }]);
    meter.flush();
  };
