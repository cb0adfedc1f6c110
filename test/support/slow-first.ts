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

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project }: TestSpecification) => slowFirst.indexOf(project.name);
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}
