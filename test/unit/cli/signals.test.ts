import { describe, expect, it } from 'vitest';
import { exitCodeOfSignal, Interrupted, Signals } from '../../../src/cli/signals.ts';

const ending = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
const forCommand = ['SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT', 'SIGTSTP'] as const;

/**
 * Runs the test with signals that are caught. `send` calls the listeners as if the system had sent the signal, but only
 * those that belong to this test: others in this process may end it.
 */
function catching(test: (signals: Signals, send: (signal: NodeJS.Signals) => number) => void): void {
  const others = new Map([...ending, ...forCommand].map((signal) => [signal as string, process.listeners(signal)]));
  const signals = new Signals();
  // They are caught from the first question on.
  expect(signals.interrupted.aborted).toBe(false);
  try {
    test(signals, (signal) => {
      const own = process.listeners(signal).filter((listener) => !others.get(signal)?.includes(listener));
      for (const listener of own) listener(signal);
      return own.length;
    });
  } finally {
    signals.stopListening();
  }
}

describe('signals to the command line', () => {
  it.each(ending)('%s ends a wait', (signal) => {
    catching((signals, send) => {
      expect(send(signal)).toBe(1);
      expect(signals.interrupted.reason).toBeInstanceOf(Interrupted);
      expect(signals.interrupted.reason).toMatchObject({ signal });
    });
  });

  it.each(forCommand)('%s is for the command alone', (signal) => {
    catching((signals, send) => {
      expect(send(signal)).toBe(1);
      expect(signals.interrupted.aborted).toBe(false);
    });
  });

  it('go to the command while it runs, and end this program again afterwards', () => {
    catching((signals, send) => {
      const passed: string[] = [];
      const stop = signals.passTo((signal) => passed.push(signal));
      send('SIGTERM');
      send('SIGUSR1');
      expect([passed, signals.interrupted.aborted]).toEqual([['SIGTERM', 'SIGUSR1'], false]);
      stop();
      send('SIGTERM');
      expect([passed, signals.interrupted.aborted]).toEqual([['SIGTERM', 'SIGUSR1'], true]);
    });
  });

  it('are left to the system until somebody asks for them, and when nobody listens any more', () => {
    const before = process.listenerCount('SIGTERM');
    new Signals().stopListening();
    expect(process.listenerCount('SIGTERM')).toBe(before);
    catching(() => expect(process.listenerCount('SIGTERM')).toBe(before + 1));
    expect(process.listenerCount('SIGTERM')).toBe(before);
  });

  it('give the exit code of a shell', () => {
    expect([exitCodeOfSignal('SIGINT'), exitCodeOfSignal('SIGTERM')]).toEqual([130, 143]);
  });
});
