import { describe, expect, it } from 'vitest';
import { localCallbacks, localTasks } from '../../../src/local/completions.ts';

describe('completions without a URL', () => {
  it.each([
    ['HOLDFAST_TASKS_URL', localTasks],
    ['HOLDFAST_CALLBACKS_URL', localCallbacks],
  ])('reach nobody, so that the grant goes to the next waiter, and the log names %s', async (variable, create) => {
    const lines: string[] = [];
    const log = { info: () => {}, warn: () => {}, error: (line: string) => void lines.push(line) };
    const completions = create({ url: undefined, region: 'us-east-1', log });
    expect(await completions.succeed('token', {})).toBe('gone');
    expect(await completions.fail('token', 'Holdfast.WaitTimeout', 'It was over.')).toBe('gone');
    expect(lines).toHaveLength(2);
    for (const line of lines) expect(line).toContain(`${variable} is not set`);
  });
});
