import { describe, expect, it } from 'vitest';
import { Terminal } from '../../../src/cli/terminal.ts';
import { kept } from './in-process.ts';

describe('the terminal', () => {
  const printed = (env: NodeJS.ProcessEnv, color = true) => {
    const { stream, text } = kept(true);
    const terminal = new Terminal({ json: false, color, env }, { stdout: stream, stderr: stream });
    terminal.table([{ title: 'OWNER' }], [['me\u001b[2J']]);
    return text();
  };

  it('has no colors if they are not wanted, and never prints what another caller smuggled in', () => {
    expect(printed({})).toContain('\u001b[');
    for (const plain of [printed({ NO_COLOR: '1' }), printed({ TERM: 'dumb' }), printed({}, false)]) {
      expect(plain).not.toContain('\u001b');
      expect(plain).toContain('me\u{FFFD}[2J');
    }
  });
});
