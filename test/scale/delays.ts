import type { Chance } from '../world/chance.ts';
import { amountOf, type FactName } from './facts.ts';

/** The 99th percentile of a normal distribution, in standard deviations. */
const p99Deviations = 2.326;

/** Draws delays with the median and the 99th percentile of the facts. They are log-normal, like most network delays. */
export function delayOf(chance: Chance, p50: FactName, p99: FactName): () => number {
  const middle = Math.log(amountOf(p50));
  const deviation = (Math.log(amountOf(p99)) - middle) / p99Deviations;
  return () => {
    const normal = Math.sqrt(-2 * Math.log(1 - chance.next())) * Math.cos(2 * Math.PI * chance.next());
    return Math.exp(middle + deviation * normal);
  };
}
