#!/usr/bin/env node
import { tooOld } from './node-version.ts';

const complaint = tooOld(process.versions.node);
if (complaint === undefined) {
  // The command line starts often and runs briefly, so compiled code is cached. The cache covers only imports after this
  // line. Both are imported only now, because an older Node has no such function and could not say why.
  const { enableCompileCache } = await import('node:module');
  enableCompileCache();
  const { runProgram } = await import('./program.ts');
  process.exitCode = await runProgram(process.argv.slice(2), process.env);
} else {
  process.stderr.write(`${complaint}\n`);
  process.exitCode = 70;
}
