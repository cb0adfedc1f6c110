/**
 * Refuses properties that would be ignored or that would switch the service off. It runs when the stack is synthesized,
 * also for plain JavaScript, where no compiler has looked.
 */
import { type FunctionName, functionNames } from './function-code.ts';
import type { LockServiceProps } from './props.ts';

/**
 * What concerns the table itself, and where functions would come from, which changes nothing. Everything else needs the
 * functions and APIs, which a table alone does not have.
 */
const ofTheTable: readonly string[] = ['tableOnly', 'removalPolicy', 'encryptionKey', 'functionsFolder'];

export function checkProps(props: LockServiceProps): void {
  if (props.tableOnly === true) {
    const ignored = Object.entries(props)
      .filter(([name, value]) => value !== undefined && !ofTheTable.includes(name))
      .map(([name]) => name);
    if (ignored.length > 0)
      throw new Error(`tableOnly creates no functions and no APIs, so it takes no ${ignored.join(', ')}.`);
  }
  checkThrottle(props.throttle);
  for (const [name, count] of Object.entries(props.reservedConcurrency ?? {})) {
    if (!functionNames.includes(name as FunctionName))
      throw new Error(`reservedConcurrency knows ${functionNames.join(', ')}, but got ${name}.`);
    // Lambda takes 0, and then runs the function never again.
    if (count !== undefined) checkCount(`reservedConcurrency.${name}`, count);
  }
}

function checkThrottle(throttle: LockServiceProps['throttle']): void {
  if (throttle === undefined) return;
  if (typeof throttle !== 'object' || throttle === null)
    throw new Error(`throttle must be { ratePerSecond, burst }, got ${JSON.stringify(throttle)}.`);
  const { ratePerSecond, burst } = throttle;
  // API Gateway takes 0, and then refuses every request.
  if (ratePerSecond !== undefined) checkCount('throttle.ratePerSecond', ratePerSecond);
  if (burst !== undefined) checkCount('throttle.burst', burst);
}

function checkCount(name: string, given: number): void {
  if (Number.isInteger(given) && given >= 1) return;
  throw new Error(`${name} must be a whole number of 1 or more, got ${JSON.stringify(given)}.`);
}
