#!/usr/bin/env node
import { enableCompileCache } from 'node:module';

// A command line starts often and lives briefly, so what was compiled once is kept. Only what is imported after this line is.
enableCompileCache();
const { runProgram } = await import('./program.ts');

process.exitCode = await runProgram(process.argv.slice(2), process.env);
