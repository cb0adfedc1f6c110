import { Metrics } from '@aws-lambda-powertools/metrics';
import type { Measure } from '../measures.ts';
import type { Meter } from '../ports.ts';

export const metricsNamespace = 'Holdfast';

/** Metrics as log lines in CloudWatch's embedded format: no call and no wait. One line for each namespace and batch. */
export class EmbeddedMeter implements Meter {
  readonly #metrics: Metrics;
  #measures: Measure[] = [];

  constructor({ serviceName }: { serviceName: string }) {
    this.#metrics = new Metrics({ namespace: metricsNamespace, serviceName });
  }

  record(measures: readonly Measure[]): void {
    this.#measures.push(...measures);
  }

  flush(): void {
    const measures = this.#measures;
    this.#measures = [];
    for (const [namespace, own] of Map.groupBy(measures, (measure) => measure.namespace)) {
      this.#metrics.addDimension('namespace', namespace);
      for (const { name, unit, value } of own) this.#metrics.addMetric(name, unit, value);
      this.#metrics.publishStoredMetrics();
    }
  }
}
