import { Logger } from '@aws-lambda-powertools/logger';
import type { Log } from '../tools/log.ts';

/** Structured JSON, one object per line. CloudWatch Logs Insights reads it without a parser. */
export const createLogger = (serviceName: string): Log => new Logger({ serviceName });

/**
 * Logs after the current requests are answered, because writing a line takes as long as reading a request. Do not use
 * this in Lambda, which stops the process after the answer.
 */
export const afterwards = (log: Log): Log => ({
  info: (...line) => void setImmediate(() => log.info(...line)),
  warn: (...line) => log.warn(...line),
  error: (...line) => log.error(...line),
});
