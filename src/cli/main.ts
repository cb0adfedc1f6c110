#!/usr/bin/env node
import { enableCompileCache } from 'node:module';
import { runProgram } from './program.ts';

// A command line starts often and lives briefly, so what was compiled once is kept.
enableCompileCache();

process.exitCode = await runProgram(process.argv.slice(2), process.env);
