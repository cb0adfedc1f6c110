import { readOptions, usage } from '../local/options.ts';
import { type Running, serve } from '../local/serve.ts';
import { StartError } from '../local/start-error.ts';
import { afterwards, createLogger } from '../process/logger.ts';

/** What `npm start` and `holdfast serve` run. Resolves with the exit code. */
export async function serveCommand(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  try {
    const options = readOptions(args, env);
    if (options.help) {
      process.stdout.write(usage());
      return 0;
    }
    const stopAsked = signalled();
    const running = await serve(options, afterwards(createLogger('holdfast')));
    process.stdout.write(banner(running, options));
    const failure = await Promise.race([stopAsked, running.failed]);
    await running.stop();
    if (failure === undefined) return 0;
    process.stderr.write(`${failure}\n`);
    return 1;
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 1;
  }
}

/** Ctrl-C and SIGTERM stop the service cleanly; a second one does not wait for that. So does whoever reads its output, by leaving. */
function signalled(): Promise<undefined> {
  return new Promise((resolve) => {
    process.stdout.once('error', () => {
      process.stdout.on('error', () => {});
      resolve(undefined);
    });
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, () => {
        process.once(signal, () => process.exit(130));
        resolve(undefined);
      });
    }
  });
}

function banner(
  { url, engine }: Running,
  { memory, dataFolder, token }: { memory: boolean; dataFolder: string; token?: string },
): string {
  const auth = token === undefined ? '' : ` -H "authorization: Bearer $HOLDFAST_TOKEN"`;
  const json = "-H 'content-type: application/json'";
  const lock = `${url}/v1/demo/locks/wallet:42`;
  return [
    `Holdfast is listening on ${url}`,
    `  engine  ${engine.description}`,
    `  data    ${memory ? 'in memory, gone when this stops' : engine.name === 'remote' ? engine.endpoint : dataFolder}`,
    `  watch   ${url.replace(/^http/, 'ws')}/v1/watch?namespace=demo&prefix=wallet`,
    'Try:',
    `  curl -s${auth} ${url}/v1/health`,
    `  curl -s${auth} ${json} -d '{"leaseMs":60000,"leaseId":"my-first-lease-0001"}' ${lock}/acquire`,
    `  curl -s${auth} ${json} -d '{"leaseId":"my-first-lease-0001"}' ${lock}/release`,
    '',
  ].join('\n');
}
