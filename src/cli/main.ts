#!/usr/bin/env node
import { enableCompileCache } from 'node:module';

// The command line starts often and runs briefly, so compiled code is cached. The cache covers only imports after this
// line.
enableCompileCache();
const { runProgram } = await import('./program.ts');

process.exitCode = await runProgram(process.argv.slice(2), process.env);
