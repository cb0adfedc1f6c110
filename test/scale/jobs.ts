/** Everything that is run, as jobs. A job is plain values, so it can be sent to another thread. */
import { hotLock } from './scenarios/hot-lock.ts';
import { longWait } from './scenarios/long-wait.ts';
import { manyLocks } from './scenarios/many-locks.ts';
import { deadHolder, meetTrouble, stampede, troubles } from './scenarios/trouble.ts';

export const scenarios = { hotLock, longWait, manyLocks, stampede, deadHolder, trouble: meetTrouble };
export type ScenarioName = keyof typeof scenarios;

export type Row<Name extends ScenarioName> = Awaited<ReturnType<(typeof scenarios)[Name]>>;
type Input<Name extends ScenarioName> = Parameters<(typeof scenarios)[Name]>;

export type Job = { [Name in ScenarioName]: { readonly scenario: Name; readonly input: Input<Name> } }[ScenarioName];

const run = scenarios as Record<ScenarioName, (...input: never[]) => Promise<unknown>>;

export const runJob = ({ scenario, input }: Job): Promise<unknown> => run[scenario](...(input as unknown as never[]));

export const troubleNames = Object.keys(troubles) as (keyof typeof troubles)[];
