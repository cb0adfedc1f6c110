/** What `serve` prints while it runs: lines of JSON for programs, or faults and a summary for a person. */
import type { Log } from '../tools/log.ts';
import type { Terminal } from './terminal.ts';

export const logHows = ['json', 'quiet'] as const;
export type LogHow = (typeof logHows)[number];

/** Often enough to see that the service is used, and rare enough that the banner stays on the screen. */
const summaryEveryMs = 60_000;

export interface ServeLog extends Log {
  /** Prints what was not summed up yet. */
  end(): void;
}

/** Warnings and faults at once. Requests only as numbers: once a minute, and at the end. */
export function quietLog(terminal: Pick<Terminal, 'note' | 'error'>): ServeLog {
  let answered = 0;
  const refused = new Map<string, number>();
  let faults = 0;
  let timer: NodeJS.Timeout | undefined;
  const sumUp = () => {
    clearTimeout(timer);
    timer = undefined;
    if (answered + faults === 0) return;
    const codes = [...refused].map(([code, count]) => `${code} ${count}`).join(', ');
    const total = answered + faults;
    const parts = [
      `${total} request${total === 1 ? '' : 's'}`,
      ...(codes === '' ? [] : [`refused: ${codes}`]),
      `${faults} failed`,
    ];
    terminal.note(parts.join(' · '));
    answered = 0;
    faults = 0;
    refused.clear();
  };
  const count = () => {
    timer ??= setTimeout(sumUp, summaryEveryMs).unref();
  };
  return {
    info(message, ...fields) {
      if (message !== 'request') return;
      const { code } = (fields[0] ?? {}) as { code?: string };
      answered += 1;
      if (code !== undefined) refused.set(code, (refused.get(code) ?? 0) + 1);
      count();
    },
    warn: (message, ...fields) => terminal.note(lineOf(message, fields)),
    error(message, ...fields) {
      if (message === 'request') faults += 1;
      terminal.error(lineOf(message, fields));
      count();
    },
    end: sumUp,
  };
}

/** One line. A request that failed is named by its route and id, and by its innermost cause. */
function lineOf(message: string, fields: readonly Record<string, unknown>[]): string {
  if (fields.length === 0) return message;
  const { route, status, requestId, error, ...rest } = Object.assign({}, ...fields) as Record<string, unknown>;
  if (message === 'request') return `${route} answered ${status}: ${causeOf(error)} (request ${requestId})`;
  const known = { ...(error === undefined ? {} : { error: causeOf(error) }), ...rest };
  return Object.keys(known).length === 0 ? message : `${message} ${JSON.stringify(known)}`;
}

function causeOf(error: unknown): string {
  const { message, cause } = (typeof error === 'object' && error !== null ? error : {}) as {
    message?: string;
    cause?: unknown;
  };
  if (cause !== undefined) return causeOf(cause);
  return message ?? String(error);
}
