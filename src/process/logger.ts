import { Logger } from '@aws-lambda-powertools/logger';

/** What the service's rooms need of a logger. */
export interface ServiceLog {
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/** Structured JSON, one line each, in the shape that CloudWatch Logs Insights reads without a parser. */
export function createLogger(serviceName: string): ServiceLog {
  const logger = new Logger({ serviceName });
  return {
    info: (message, fields = {}) => logger.info(message, fields),
    warn: (message, fields = {}) => logger.warn(message, fields),
    error: (message, fields = {}) => logger.error(message, fields),
  };
}

/** Logs when what is under way has been answered: a line takes as long to write as a request to read. Not for Lambda, which stops at the answer. */
export const afterwards = (log: ServiceLog): ServiceLog => ({
  ...log,
  info: (message, fields) => {
    setImmediate(() => log.info(message, fields));
  },
});
