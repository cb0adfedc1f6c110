/** Bundles functions/*.ts for Lambda. `npm run build` ships the bundles, the stack deploys them, and tests run them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BuildOptions, build, type Metafile } from 'esbuild';
import { type BundleName, bundledFunctions, bundleNames, packageRoot } from './function-code.ts';

/** One ES module for Node that contains everything. The deployed version is Node 24. */
export const nodeModule = {
  absWorkingDir: packageRoot,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  // The bundler can drop unused parts of the SDK's ES modules, but not of its CommonJS. This alone saves 200 kB.
  mainFields: ['module', 'main'],
  // Some dependencies are CommonJS and load Node's own modules with `require`, which an ES module does not have.
  banner: {
    js: "import{createRequire as createRequireOf}from'node:module';const require=createRequireOf(import.meta.url);",
  },
  legalComments: 'none',
  logLevel: 'warning',
} as const satisfies BuildOptions;

export interface Bundle {
  readonly name: BundleName;
  /** Size of the module. Nothing else is deployed. */
  readonly bytes: number;
  readonly metafile: Metafile;
}

/**
 * One folder per function, each with an `index.mjs`. The same sources give the same bytes, so an unchanged function is
 * not deployed again.
 */
export function bundleFunctions(
  folder: string = bundledFunctions,
  names: readonly BundleName[] = bundleNames,
): Promise<Bundle[]> {
  return Promise.all(names.map((name) => bundleFunction(name, join(folder, name))));
}

async function bundleFunction(name: BundleName, folder: string): Promise<Bundle> {
  const { version } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
  const outfile = join(folder, 'index.mjs');
  const { metafile } = await build({
    entryPoints: [join('functions', `${name}.ts`)],
    outfile,
    ...nodeModule,
    minify: true,
    external: otherCredentials,
    define: { HOLDFAST_VERSION: JSON.stringify(version) },
    metafile: true,
  });
  const written = Object.values(metafile.outputs).find(({ entryPoint }) => entryPoint !== undefined);
  return { name, bytes: written?.bytes ?? 0, metafile };
}

/**
 * A function finds its credentials in its environment. Only if that fails, the SDK loads other ways to find them, with
 * clients for sign-on services. These are 80 kB that a function never uses.
 */
const otherCredentials = ['http', 'ini', 'process', 'sso', 'web-identity'].map(
  (way) => `@aws-sdk/credential-provider-${way}`,
);
