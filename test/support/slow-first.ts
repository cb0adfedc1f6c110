import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Slow suites begin first, so that no single one is left running at the end. A fresh clone has no times of earlier
 * runs.
 */
const slowFirst = [
  'simulation',
  'console',
  'e2e',
  'emulated',
  'integration',
  'docs',
  'contract',
  'infra',
  'property',
  'unit',
];

/**
 * These take ten seconds or more, in which they mostly wait: for real time, for a process, or for the one engine. They
 * are spread over the suites that compute. Side by side they would leave the machine idle.
 */
const waiting = [
  'e2e/client-process',
  'e2e/cli-run',
  'e2e/faults',
  'integration/notify/parked',
  'contract/large-claims',
  'contract/harsh',
  'contract/pages',
  'integration/notify/functions',
  'integration/push',
  'integration/lock/waiting',
];

/** After this many files of the others comes one that waits. */
const stride = 3;

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project }: TestSpecification) => slowFirst.indexOf(project.name);
    const sorted = (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
    const waits = waiting.flatMap((name) =>
      sorted.filter(({ moduleId }) => moduleId.endsWith(`/test/${name}.test.ts`)),
    );
    const others = sorted.filter((file) => !waits.includes(file));
    return others
      .flatMap((file, index) => {
        const next = index % stride === 0 ? waits.shift() : undefined;
        return next === undefined ? [file] : [next, file];
      })
      .concat(waits);
  }
}
