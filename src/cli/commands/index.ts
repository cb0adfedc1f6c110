import type { Command } from '../command.ts';
import { completionOf } from './completion.ts';
import { showConsole } from './console.ts';
import { doctor } from './doctor.ts';
import { elect } from './elect.ts';
import { history, watch } from './events.ts';
import { acquire, release, renew } from './lease.ts';
import { lookCommands } from './look.ts';
import { multiAcquire, multiRelease, multiRenew } from './multi.ts';
import { once } from './once.ts';
import { recordDelete, recordGet, recordPut } from './record.ts';
import { run } from './run.ts';
import { serve } from './serve.ts';
import { sessionCreate, sessionEnd, sessionGet, sessionKeepalive } from './session.ts';

const others: readonly Command[] = [
  run,
  once,
  elect,
  acquire,
  renew,
  release,
  multiAcquire,
  multiRenew,
  multiRelease,
  ...lookCommands,
  watch,
  history,
  recordGet,
  recordPut,
  recordDelete,
  sessionCreate,
  sessionKeepalive,
  sessionGet,
  sessionEnd,
  showConsole,
  doctor,
  serve,
];

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [...others, completionOf(others)];
