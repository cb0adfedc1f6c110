import type { Command } from '../command.ts';
import { completionOf } from './completion.ts';
import { showConsole } from './console.ts';
import { doctor } from './doctor.ts';
import { elect } from './elect.ts';
import { history, watch } from './events.ts';
import { leaseCommands } from './lease.ts';
import { lookCommands } from './look.ts';
import { mcp } from './mcp.ts';
import { measure } from './measure.ts';
import { multiCommands } from './multi.ts';
import { once } from './once.ts';
import { recordCommands } from './record.ts';
import { run } from './run.ts';
import { serve } from './serve.ts';
import { sessionCommands } from './session.ts';

const others: readonly Command[] = [
  run,
  once,
  elect,
  ...leaseCommands,
  ...multiCommands,
  ...lookCommands,
  watch,
  history,
  ...recordCommands,
  ...sessionCommands,
  showConsole,
  doctor,
  mcp,
  measure,
  serve,
];

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [...others, completionOf(others)];
