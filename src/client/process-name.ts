/** Parts of Node and Lambda that a browser or an edge worker does not have. */
interface NodeProcess {
  readonly pid?: number;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Node 22.3 and newer. Unlike an import, it needs no bundler to know `node:os`. */
  readonly getBuiltinModule?: (name: 'node:os') => { hostname(): string } | undefined;
}

const ownerLengthMax = 128;

/**
 * The owner of a client that nobody named, if the service does not authenticate callers either: the host and the process,
 * so that a colleague knows where to look. In Lambda it is the function and the end of its log stream, because all hosts
 * have the same name there. Undefined in a browser.
 */
export function processName(): string | undefined {
  const { pid, env = {}, getBuiltinModule } = (globalThis as { process?: NodeProcess }).process ?? {};
  if (pid === undefined) return undefined;
  const { AWS_LAMBDA_FUNCTION_NAME: functionName, AWS_LAMBDA_LOG_STREAM_NAME: logStream } = env;
  if (functionName !== undefined) return `${functionName}:${logStream?.slice(-8) ?? pid}`.slice(-ownerLengthMax);
  const host = getBuiltinModule?.('node:os')?.hostname() ?? env.HOSTNAME ?? 'node';
  return `${host}:${pid}`.slice(-ownerLengthMax);
}
