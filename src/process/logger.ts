import { Logger } from '@aws-lambda-powertools/logger';

/** The methods of a logger that the service uses. */
export interface ServiceLog {
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/** Structured JSON, one object per line. CloudWatch Logs Insights reads it without a parser. */
export function createLogger(serviceName: string): ServiceLog {
  const logger = new Logger({ serviceName });
  return {
    info: (message, fields = {}) => logger.info(message, fields),
    warn: (message, fields = {}) => logger.warn(message, fields),
    error: (message, fields = {}) => logger.error(message, fields),
  };
}

/**
 * Logs after the current requests are answered, because writing a line takes as long as reading a request. Do not use
 * this in Lambda, which stops the process after the answer.
 */
export const afterwards = (log: ServiceLog): ServiceLog => ({
  ...log,
  info: (message, fields) => {
    setImmediate(() => log.info(message, fields));
  },
});
