/** Adds to dist/ what `tsc` does not write there. `npm run build` runs it. */
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { bundlePage } from '../src/console/server/bundle.ts';
import { bundleFunctions, nodeModule } from './bundle.ts';
import { packageRoot } from './function-code.ts';
import { noticesOf, packagesIn } from './notices.ts';
import { unreached } from './unreached.ts';

const published = join(packageRoot, 'dist', 'src');
const engine = join('local', 'engine');

const functions = await bundleFunctions();

/**
 * The local service is bundled with all its dependencies, so that `npx holdfast serve` works if only the SDK is
 * installed. The bundle is beside the engine's guardian, which it starts. Engines are found at run time, because they
 * are optional and large.
 */
// A user's machine may have any Node that the package supports.
const service = await build({
  ...nodeModule,
  metafile: true,
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

// The console's page contains one package.
const bundled = packagesIn([...functions.map(({ metafile }) => metafile), service.metafile]);
writeFileSync(join(packageRoot, 'dist', 'THIRD-PARTY-NOTICES.txt'), noticesOf([...bundled, 'node_modules/lit-html']));

// `tsc` compiles every source. Most modules of the service are only needed inside the bundles.
const { exports, bin } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'));
const entries = Object.values<string | { types: string; default: string }>({ ...exports, ...bin })
  .flatMap((entry) => (typeof entry === 'string' ? [entry] : Object.values(entry)))
  .filter((entry) => entry.startsWith('./dist'));
// Programs that the command line starts by their path.
const programs = ['cli/guardian.js', 'local/engine/guardian.js'].map((program) => join(published, program));
for (const file of unreached(join(packageRoot, 'dist'), [
  ...entries.map((entry) => join(packageRoot, entry)),
  ...programs,
]))
  rmSync(file);
