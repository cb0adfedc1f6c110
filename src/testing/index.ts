/**
 * The test twin: the whole service in the memory of a test, in virtual time, with faults at will.
 *
 * @packageDocumentation
 */
export type { FaultMatch } from './faults.ts';
export { Twin, type TwinOptions } from './twin.ts';
