import type { VirtualTime } from '../../src/testing/virtual-time.ts';

export type Statistic = 'Sum' | 'Maximum';

interface Minute {
  sum: number;
  max: number;
}

const minuteMs = 60_000;

/** The CloudWatch metrics of a run, for each minute. */
export class Metrics {
  readonly #time: VirtualTime;
  readonly #series = new Map<string, Map<number, Minute>>();

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  /** `of` names the thing as its stack does, without the digits that CloudFormation adds: `HttpFunction`, `Table`. */
  add(metric: string, of: string, value = 1): void {
    const id = `${metric} ${of}`;
    const series = this.#series.get(id) ?? new Map<number, Minute>();
    this.#series.set(id, series);
    const minute = Math.floor((this.#time.now() - this.#time.startAt) / minuteMs);
    const { sum, max } = series.get(minute) ?? { sum: 0, max: 0 };
    series.set(minute, { sum: sum + value, max: Math.max(max, value) });
  }

  has(metric: string, of: string): boolean {
    return this.#series.has(`${metric} ${of}`);
  }

  /** One value for each period since the run began. Undefined if there was none in that period. */
  values(metric: string, of: string, statistic: Statistic, periodMs: number): (number | undefined)[] {
    const minutes = this.#series.get(`${metric} ${of}`) ?? new Map<number, Minute>();
    const each = periodMs / minuteMs;
    const periods = Math.ceil((this.#time.now() - this.#time.startAt) / periodMs);
    return Array.from({ length: periods }, (_, period) => {
      const found = Array.from({ length: each }, (_, index) => minutes.get(period * each + index)).filter(
        (minute) => minute !== undefined,
      );
      if (found.length === 0) return undefined;
      if (statistic === 'Maximum') return Math.max(...found.map(({ max }) => max));
      return found.reduce((total, { sum }) => total + sum, 0);
    });
  }
}
