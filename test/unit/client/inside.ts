/** What a client sends and which timers it sets, seen from inside. */
import type { Core } from '../../../src/client/core.ts';
import type { Holdfast } from '../../../src/client/index.ts';
import type { Call } from '../../../src/client/transport.ts';

export const coreOf = (client: Holdfast): Core => (client as unknown as { core: Core }).core;

/** Every request that the client sends from now on, in order. */
export function callsOf(client: Holdfast): Call[] {
  const { transport } = coreOf(client);
  const sent: Call[] = [];
  const request = transport.request.bind(transport);
  transport.request = (call, signal) => {
    sent.push(call);
    return request(call, signal);
  };
  return sent;
}

/** How many timers the client has set from now on that have neither run nor been cancelled. */
export function timersOf(client: Holdfast): { readonly size: number; readonly keepAlive: number } {
  const { runtime } = coreOf(client);
  const open = new Set<{ readonly isInBackground: boolean }>();
  const after = runtime.after.bind(runtime);
  runtime.after = (ms, run, background = false) => {
    const timer = { isInBackground: background };
    open.add(timer);
    const cancel = after(
      ms,
      () => {
        open.delete(timer);
        run();
      },
      background,
    );
    return () => {
      open.delete(timer);
      cancel();
    };
  };
  return {
    get size() {
      return open.size;
    },
    /** Those that keep the process alive. */
    get keepAlive() {
      return [...open].filter(({ isInBackground }) => !isInBackground).length;
    },
  };
}
