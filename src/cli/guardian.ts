/**
 * Ends a command when the process that holds its lock can't: because that was killed with -9, was stopped, or hangs.
 *
 * No process can clean up after its own kill -9, so somebody else must. This one reads from a pipe, which the operating system closes
 * however its other end dies. It is told which process group to end, and again and again for how long the lock is surely held; when
 * that time is over, or the pipe ends without a farewell, it ends the group. It runs in a session of its own, so that neither
 * Ctrl-C nor a closed terminal reaches it.
 *
 *     target -4711      the process group, or a process where the number is positive
 *     held 28500        milliseconds from now
 *     done              all is over: end without doing anything
 */
import { createInterface } from 'node:readline';

const graceMs = Number(process.argv[2]);
let target: number | undefined;
let deadline: NodeJS.Timeout | undefined;
let ending = false;

/** False if there is nobody left. */
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
  // Ten looks a second: a number whose process has ended may be given to another, so it is not kept for longer than needed.
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
