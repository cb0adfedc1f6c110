/** The alarms and the dashboard against the modelled service: see test/scale. */
import { describe, expect, it } from 'vitest';
import { alarmRulesOf, firedAlarms, plainName } from '../scale/alarms.ts';
import type { Metrics } from '../scale/metrics.ts';
import { alarmWorlds, liveThrough } from '../scale/scenarios/alarm-worlds.ts';
import { createStack, resourcesOf, spell, templateOf } from './synthesized.ts';

const template = templateOf(createStack());
const rules = alarmRulesOf(template);
/** Of the worlds that were lived through, for the dashboard. */
const lived: Metrics[] = [];

describe('an alarm', () => {
  it('has a world that it is for', () => {
    expect(new Set(alarmWorlds.flatMap(({ fires }) => fires))).toEqual(new Set(rules.map(({ name }) => name)));
  });

  it.each(alarmWorlds)('fires where it should: $what', async (alarmWorld) => {
    const { metrics } = await liveThrough(alarmWorld, 7);
    lived.push(metrics);
    const fired = firedAlarms(rules, metrics);
    if (alarmWorld.fires.length === 0) expect(fired).toEqual([]);
    else expect(fired).toEqual(expect.arrayContaining([...alarmWorld.fires]));
  });
});

describe('the dashboard', () => {
  it('shows nothing that never has a value', () => {
    const [dashboard] = resourcesOf(template, 'AWS::CloudWatch::Dashboard');
    const { widgets } = JSON.parse(spell(dashboard?.[1].Properties.DashboardBody)) as {
      widgets: { properties: { metrics?: (string | { expression?: string })[][] } }[];
    };
    const lines = widgets.flatMap(({ properties }) => properties.metrics ?? []);
    const unseen = lines.map(metricOf).filter((shown) => shown !== undefined && !lived.some((one) => has(one, shown)));
    expect(unseen).toEqual([]);
  });
});

interface ShownMetric {
  readonly metric: string;
  readonly of: readonly string[];
}

/** Undefined: computed from others that are there too. */
function metricOf([first, metric, , value]: (string | { expression?: string })[]): ShownMetric | undefined {
  if (typeof first === 'string') return { metric: metric as string, of: [plainName(value)] };
  const searched = /MetricName="(\w+)"/.exec(first?.expression ?? '')?.[1];
  return searched === undefined ? undefined : { metric: searched, of: ['http', 'notifier', 'publisher'] };
}

const has = (metrics: Metrics, { metric, of }: ShownMetric): boolean => of.some((one) => metrics.has(metric, one));
