/** Completes what `tsc` wrote to dist/ into what is published. Run by `npm run build`. */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { bundleFunctions } from './bundle.ts';
import { packageRoot } from './function-code.ts';

const engine = join(packageRoot, 'src', 'local', 'engine');
const published = join(packageRoot, 'dist', 'src');

await bundleFunctions();

/**
 * The local service is bundled with all that it needs, so that `npx holdfast serve` works where the SDK is the only thing that was
 * installed. Engines are looked for at run time: they are optional, and large.
 */
await build({
  absWorkingDir: packageRoot,
  entryPoints: { serve: 'src/cli/serve.ts', guardian: 'src/local/engine/guardian.ts' },
  outdir: join(published, 'cli'),
  allowOverwrite: true,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  mainFields: ['module', 'main'],
  // Some dependencies are CommonJS and ask for Node's own modules by `require`, which an ES module has to be given.
  banner: {
    js: "import{createRequire as createRequireOf}from'node:module';const require=createRequireOf(import.meta.url);",
  },
  legalComments: 'none',
  logLevel: 'warning',
});

// Java runs it from its source, so it travels as it is, beside whoever starts it.
for (const folder of [join(published, 'cli'), join(published, 'local', 'engine')]) {
  copyFileSync(join(engine, 'LoopbackServer.java'), join(folder, 'LoopbackServer.java'));
}
