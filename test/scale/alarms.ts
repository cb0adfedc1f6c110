/** The stack's alarms as CloudWatch evaluates them, on the metrics of a modelled run. */
import type { Template } from 'aws-cdk-lib/assertions';
import { resourcesOf, spell } from '../infra/synthesized.ts';
import type { Metrics, Statistic } from './metrics.ts';

interface MetricName {
  readonly metric: string;
  /** The name of the thing that has the metric, as in the model. */
  readonly of: string;
}

export interface AlarmRule {
  readonly name: string;
  /** Their sum is compared. */
  readonly metrics: readonly MetricName[];
  readonly statistic: Statistic;
  readonly periodMs: number;
  readonly atLeast: number;
  readonly periods: number;
}

interface MetricProperties {
  readonly MetricName: string;
  readonly Dimensions: readonly { readonly Value: unknown }[];
}

/** `<LocksHttpFunction54DB20AA>` is `HttpFunction`: without the construct's name and the digits that CloudFormation adds. */
export const plainName = (value: unknown): string =>
  spell(value)
    .replace(/^<(?:Locks)?/, '')
    .replace(/[0-9A-F]{8}(\.\w+)?>$/, '');

const nameOf = ({ MetricName, Dimensions }: MetricProperties): MetricName => ({
  metric: MetricName,
  of: plainName(Dimensions[0]?.Value),
});

export const alarmRulesOf = (template: Template): AlarmRule[] =>
  resourcesOf(template, 'AWS::CloudWatch::Alarm').map(([id, { Properties }]) => {
    const { Threshold, EvaluationPeriods, ComparisonOperator } = Properties;
    const name = id.replace(/^LocksMonitoring/, '').replace(/[0-9A-F]{8}$/, '');
    if (ComparisonOperator !== 'GreaterThanOrEqualToThreshold')
      throw new Error(`${name} compares by ${ComparisonOperator}, which the model does not know.`);
    return { name, ...measuredBy(name, Properties), atLeast: Threshold, periods: EvaluationPeriods };
  });

// biome-ignore lint/suspicious/noExplicitAny: a template is whatever CloudFormation takes.
function measuredBy(name: string, properties: any): Pick<AlarmRule, 'metrics' | 'statistic' | 'periodMs'> {
  if (properties.Metrics === undefined) {
    return { metrics: [nameOf(properties)], statistic: properties.Statistic, periodMs: properties.Period * 1_000 };
  }
  const { Expression } = properties.Metrics.find((one: { Expression?: string }) => one.Expression !== undefined);
  if (!/^FILL\(\w+, 0\)( \+ FILL\(\w+, 0\))*$/.test(Expression))
    throw new Error(`${name} computes ${Expression}, which the model does not know.`);
  const stats = properties.Metrics.flatMap((one: { MetricStat?: object }) => one.MetricStat ?? []);
  return { metrics: stats.map(metricOf), statistic: stats[0].Stat, periodMs: stats[0].Period * 1_000 };
}

const metricOf = ({ Metric }: { Metric: MetricProperties }): MetricName => nameOf(Metric);

/** The alarms that would have fired at some time in the run. Missing values fire no alarm. */
export const firedAlarms = (rules: readonly AlarmRule[], metrics: Metrics): string[] =>
  rules.filter((rule) => isFired(rule, metrics)).map(({ name }) => name);

function isFired({ metrics: names, statistic, periodMs, atLeast, periods }: AlarmRule, metrics: Metrics): boolean {
  const series = names.map(({ metric, of }) => metrics.values(metric, of, statistic, periodMs));
  let inARow = 0;
  for (let period = 0; period < (series[0]?.length ?? 0); period++) {
    const found = series.flatMap((values) => values[period] ?? []);
    const isBreached = found.length > 0 && found.reduce((sum, value) => sum + value, 0) >= atLeast;
    inARow = isBreached ? inARow + 1 : 0;
    if (inARow >= periods) return true;
  }
  return false;
}
