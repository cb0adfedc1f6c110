#!/usr/bin/env node
import nodeModule from 'node:module';

// A command line starts often and lives briefly, so what was compiled once is kept. Node 20 has no such cache.
nodeModule.enableCompileCache?.();

const [command, ...args] = process.argv.slice(2);

// Loaded only where it is wanted: the service brings an engine, and whoever takes a lock should not wait for that.
if (command === 'serve') {
  const { serveCommand } = await import('./serve.ts');
  process.exitCode = await serveCommand(args, process.env);
} else {
  const { runProgram } = await import('./program.ts');
  process.exitCode = await runProgram(process.argv.slice(2), process.env);
}
