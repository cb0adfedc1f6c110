/**
 * Locks in Lambda durable functions: the function waits for its lock without running.
 *
 * @packageDocumentation
 */
export { type LockedStepOptions, lockedStep, type StepLock } from './locked-step.ts';
