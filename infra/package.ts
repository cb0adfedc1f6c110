/** Adds to dist/ what `tsc` does not write there. `npm run build` runs it. */
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { bundlePage } from '../src/console/server/bundle.ts';
import { bundleFunctions, nodeModule } from './bundle.ts';
import { packageRoot } from './function-code.ts';

const published = join(packageRoot, 'dist', 'src');
const engine = join('local', 'engine');

await bundleFunctions();

/**
 * The local service is bundled with all its dependencies, so that `npx holdfast serve` works if only the SDK is
 * installed. The bundle is beside the engine's guardian, which it starts. Engines are found at run time, because they
 * are optional and large.
 */
// A user's machine may have any Node that the package supports.
await build({
  ...nodeModule,
  target: 'node22',
  entryPoints: ['src/local/serve.ts'],
  outfile: join(published, engine, 'serve.js'),
});
writeFileSync(join(published, 'local', 'serve.js'), "export * from './engine/serve.js';\n");

// The console's page is built here, because the package has no sources to build it from.
const assets = join(published, 'console', 'assets');
mkdirSync(assets, { recursive: true });
for (const [name, { body, isGzip }] of await bundlePage()) {
  writeFileSync(join(assets, isGzip ? `${name}.gz` : name), body);
}
for (const left of ['bundle.js', 'bundle.d.ts']) rmSync(join(published, 'console', 'server', left), { force: true });

// Java runs this source file directly, so it is copied unchanged.
copyFileSync(join(packageRoot, 'src', engine, 'LoopbackServer.java'), join(published, engine, 'LoopbackServer.java'));
