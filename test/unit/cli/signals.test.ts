import { describe, expect, it } from 'vitest';
import { exitCodeOfSignal, Interrupted, Signals } from '../../../src/cli/signals.ts';

/** As if the system had sent it. */
const send = (signal: NodeJS.Signals) => process.emit(signal, signal);

/** Runs the test with signals that are caught, and with nothing left behind. */
async function catching(test: (signals: Signals) => void): Promise<void> {
  const signals = new Signals();
  try {
    test(signals);
  } finally {
    signals.stopListening();
  }
}

describe('signals to the command line', () => {
  it.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const)('%s ends a wait', (signal) =>
    catching((signals) => {
      send(signal);
      expect(signals.interrupted.reason).toBeInstanceOf(Interrupted);
      expect(signals.interrupted.reason).toMatchObject({ signal });
    }),
  );

  it.each(['SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT', 'SIGTSTP'] as const)('%s is for the command alone', (signal) =>
    catching((signals) => {
      expect(send(signal)).toBe(true);
      expect(signals.interrupted.aborted).toBe(false);
    }),
  );

  it('go to the command while it runs, and end this program again afterwards', () =>
    catching((signals) => {
      const passed: string[] = [];
      const stop = signals.passTo((signal) => passed.push(signal));
      send('SIGTERM');
      send('SIGUSR1');
      expect([passed, signals.interrupted.aborted]).toEqual([['SIGTERM', 'SIGUSR1'], false]);
      stop();
      send('SIGTERM');
      expect([passed, signals.interrupted.aborted]).toEqual([['SIGTERM', 'SIGUSR1'], true]);
    }));

  it('are left to the system when nobody listens any more', async () => {
    const before = process.listenerCount('SIGTERM');
    await catching(() => expect(process.listenerCount('SIGTERM')).toBe(before + 1));
    expect(process.listenerCount('SIGTERM')).toBe(before);
  });

  it('give the exit code of a shell', () => {
    expect([exitCodeOfSignal('SIGINT'), exitCodeOfSignal('SIGTERM')]).toEqual([130, 143]);
  });
});
