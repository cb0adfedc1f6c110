import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createStack, resourcesOf, templateOf } from './synthesized.ts';

const deployed = templateOf(createStack());
const pageOf = (name: string): string =>
  readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8').replaceAll(/\s+/g, ' ');

const numbers = ['no', 'a', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'];
const spelled = (count: number): string => numbers[count] ?? String(count);

describe('docs/deploy.md', () => {
  it('counts what the template has', () => {
    const count = (type: string) => resourcesOf(deployed, type).length;
    const queues = resourcesOf(deployed, 'AWS::SQS::Queue').map(([id]) => id);
    const deadLetters = queues.filter((id) => /DeadLetters/.test(id)).length;
    const functions = resourcesOf(deployed, 'AWS::Lambda::Function').filter(([id]) => /Function[0-9A-F]{8}$/.test(id));
    const page = pageOf('deploy');
    expect(queues.length - deadLetters).toBe(1);
    expect(page).toContain('a queue for timers');
    expect(page).toContain(`${spelled(deadLetters)} dead-letter queues`);
    expect(page).toContain(`${spelled(functions.length)} Lambda functions`);
    expect(page).toContain(`${spelled(count('AWS::CloudWatch::Alarm'))} alarms`);
  });
});
