/**
 * Ends a command if the process that holds its lock can't do so, because it was killed with -9, was stopped, or hangs.
 *
 * No process can clean up after its own kill -9, so this second process does. It reads from a pipe, which the operating
 * system closes however the holder dies. The holder writes which process group to end, and writes again and again how
 * long the lock is certainly held. The guardian ends the group when that time is over, or when the pipe closes without
 * `done`. It runs in its own session, so that neither Ctrl-C nor a closed terminal reaches it.
 *
 *     target -4711      the process group, or one process if the number is positive
 *     held 28500        milliseconds from now
 *     done              the command has ended: exit and do nothing
 */
import { createInterface } from 'node:readline';

const graceMs = Number(process.argv[2]);
let target: number | undefined;
let deadline: NodeJS.Timeout | undefined;
let ending = false;

/** False if no process is left. */
function send(signal: NodeJS.Signals | 0): boolean {
  try {
    return target !== undefined && process.kill(target, signal);
  } catch {
    return false;
  }
}

function end(): void {
  if (ending) return;
  ending = true;
  if (!send('SIGTERM')) process.exit(0);
  setTimeout(() => {
    send('SIGKILL');
    process.exit(0);
  }, graceMs);
  // Ten times a second: the system may give the number of an ended process to another one, so it must not be used for
  // long.
  setInterval(() => {
    if (!send(0)) process.exit(0);
  }, 100);
}

for await (const line of createInterface({ input: process.stdin })) {
  const [word, number] = line.split(' ');
  if (word === 'done') process.exit(0);
  if (word === 'target') target = Number(number);
  if (word === 'held') {
    clearTimeout(deadline);
    deadline = setTimeout(end, Number(number));
  }
}
end();
