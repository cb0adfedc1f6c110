/**
 * The test twin: the whole service in memory and in virtual time, with faults that a test can script.
 *
 * @packageDocumentation
 */
export type { FaultMatch } from './faults.ts';
export { Twin, type TwinOptions } from './twin.ts';
