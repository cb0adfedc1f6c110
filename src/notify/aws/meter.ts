import { type Measure, metricsNamespace } from '../measures.ts';
import type { Meter } from '../ports.ts';

/** CloudWatch takes at most 100 values of one metric in a line. */
const valuesMax = 100;

export interface MeterOptions {
  readonly serviceName: string;
  /** Lock namespaces with their own metrics. They are listed here, because each metric costs money every month and a caller may invent namespaces. */
  readonly namespaces?: readonly string[];
  readonly write?: (line: string) => void;
  readonly now?: () => number;
}

/**
 * Metrics as log lines in CloudWatch's embedded format. This needs no call and no wait. Every value counts for the whole service, and also
 * for its namespace if that is in the list.
 */
export class EmbeddedMeter implements Meter {
  readonly #serviceName: string;
  readonly #namespaces: ReadonlySet<string>;
  readonly #write: (line: string) => void;
  readonly #now: () => number;
  #measures: Measure[] = [];

  constructor({ serviceName, namespaces = [], write, now = Date.now }: MeterOptions) {
    this.#serviceName = serviceName;
    this.#namespaces = new Set(namespaces);
    // Not with `console`: Lambda would put the line into its own JSON, and CloudWatch would not find the metrics in it.
    this.#write = write ?? ((line) => process.stdout.write(`${line}\n`));
    this.#now = now;
  }

  record(measures: readonly Measure[]): void {
    this.#measures.push(...measures);
  }

  flush(): void {
    const measures = this.#measures;
    this.#measures = [];
    const known = ({ namespace }: Measure) =>
      namespace !== undefined && this.#namespaces.has(namespace) ? namespace : undefined;
    for (const [namespace, own] of Map.groupBy(measures, known)) {
      const byName = [...Map.groupBy(own, ({ name }) => name)];
      for (let start = 0; byName.some(([, values]) => values.length > start); start += valuesMax) {
        this.#writeLine(
          namespace,
          byName.map(([, values]) => values.slice(start, start + valuesMax)).filter((values) => values.length > 0),
        );
      }
    }
  }

  #writeLine(namespace: string | undefined, metrics: readonly (readonly Measure[])[]): void {
    const own = namespace === undefined ? [] : [['service', 'namespace']];
    const line = {
      _aws: {
        Timestamp: this.#now(),
        CloudWatchMetrics: [
          {
            Namespace: metricsNamespace,
            Dimensions: [['service'], ...own],
            Metrics: metrics.map(([first]) => ({ Name: first?.name, Unit: first?.unit })),
          },
        ],
      },
      service: this.#serviceName,
      ...(namespace === undefined ? {} : { namespace }),
      ...Object.fromEntries(metrics.map((values) => [values[0]?.name, values.map(({ value }) => value)])),
    };
    this.#write(JSON.stringify(line));
  }
}
