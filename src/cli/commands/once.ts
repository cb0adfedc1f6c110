import { StaleFenceError } from '../../client/index.ts';
import type { Command, Flags, Invocation } from '../command.ts';
import { exitCodes } from '../exit-codes.ts';
import { UsageError } from '../failure.ts';
import { holdCommand } from '../hold.ts';
import type { Lease } from '../service.ts';
import { leaseFlags, readLeaseMs, readWaitMs } from './lease-flags.ts';
import { commandFlags, holdOptions } from './run.ts';

/** The service keeps a record for one second to one year. */
const spanMsRange = [1_000, 31_536_000_000] as const;

const onceFlags: Flags = {
  'every <duration>': 'Run once in each window of this length, 1s to 365d, counted from 1970 in UTC.',
  'offset <duration>': 'With --every: moves where windows begin, so that none begins when the job does.',
  'keep <duration>': 'Without --every: how long the job counts as done, 1s to 365d; 1d by default.',
  'wait <duration>': 'How long to wait for a run in progress, up to 15m; 0 by default: return at once.',
  'close-on-failure': 'Do not run it again after a run that failed.',
};

/** The value that a successful run leaves for the other callers. */
interface Done {
  readonly by: string;
}

/** The command ended with this code, so the job is not done. */
class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`The command exited with ${exitCode}.`);
    this.exitCode = exitCode;
  }
}

export const once: Command = {
  name: 'once',
  summary: 'Run a command once: in each window of time, or for its name.',
  operands: [{ name: 'job' }],
  flags: { ...onceFlags, ...leaseFlags, ...commandFlags },
  runsCommand: true,
  details: `Start it on every host: one of them runs the command, and the others exit with 0 when it is done. If the
command exits with another code than 0, it has failed, and the next caller runs it again. If a host dies, another one runs
it within the window, but only if it is still there: with --wait longer than the lease, or started again later. If a run
is in progress when the wait is over, callers exit with 75: the job is not done yet.

The service's clock decides where windows begin. The lock and the record of the job are called once:JOB. The command gets
the same variables as with run. If this host was too slow and another one took over, the exit code is 76.`,
  examples: [
    'holdfast once nightly --every 24h --wait 1m -- ./settle.sh',
    'holdfast once report --every 7d --offset 4d --wait 15m -- ./report.sh',
    'holdfast once migrate:42 --keep 30d -- ./migrate.sh 42',
  ],
  async run(invocation) {
    const { given, terminal } = invocation;
    const { interrupted } = invocation.signals;
    const connection = invocation.connection();
    const job = given.operand('job');
    const options = readOptions(invocation);
    const hold = holdOptions(invocation);
    const work = async (lease: Lease): Promise<Done> => {
      interrupted.throwIfAborted();
      const outcome = await holdCommand(lease, hold);
      if (outcome.kind === 'lost') throw outcome.error;
      if (outcome.exitCode !== 0) throw new CommandFailed(outcome.exitCode);
      return { by: connection.owner };
    };
    try {
      const result = await connection.service.onceLease(job, { ...options, signal: interrupted }, work);
      const { ran, done, value } = result;
      // If the command ran, its own output is the result. This is the result of a call that did not run it.
      if (!ran && terminal.json) terminal.printJson({ job, ran, done, ...value });
      else if (!ran && done) terminal.note(`${job} is done, by ${value.by}.`);
      else if (!ran) {
        terminal.error(
          `${job} is not done: somebody else holds it, at work or just died. Call again, or wait longer than its lease: --wait 1m.`,
        );
      }
      return done ? exitCodes.ok : exitCodes.refused;
    } catch (error) {
      if (error instanceof CommandFailed) return error.exitCode;
      if (!(error instanceof StaleFenceError)) throw error;
      terminal.error(`${job} was taken over by another run before this one was done, so this one does not count.`);
      return exitCodes.lost;
    }
  },
};

function readOptions({ given }: Invocation) {
  const everyMs = given.durationMs('every', ...spanMsRange);
  const keepMs = given.durationMs('keep', ...spanMsRange);
  if (everyMs !== undefined && keepMs !== undefined) {
    throw new UsageError('--every keeps a run until its window ends, --keep sets its own time: give one of the two.');
  }
  if (everyMs === undefined && given.has('offset')) throw new UsageError('--offset needs --every.');
  return {
    everyMs,
    keepMs,
    offsetMs: given.durationMs('offset', 0, (everyMs ?? 1) - 1),
    waitMs: readWaitMs(given),
    leaseMs: readLeaseMs(given),
    onFailure: given.has('close-on-failure') ? ('close' as const) : ('open' as const),
  };
}
