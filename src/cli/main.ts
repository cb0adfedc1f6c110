#!/usr/bin/env node
import { serveCommand } from './serve.ts';

const [command, ...args] = process.argv.slice(2);

if (command === 'serve') process.exitCode = await serveCommand(args, process.env);
else {
  process.stderr.write(`Usage: holdfast serve [flags]; holdfast serve --help lists them.\n`);
  process.exitCode = command === undefined || command === '--help' ? 0 : 2;
}
