/** Turns functions/*.ts into what Lambda runs. `npm run build` ships the result, the stack deploys it, and tests run it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BuildOptions, build, type Metafile } from 'esbuild';
import { type BundleName, bundledFunctions, bundleNames, packageRoot } from './function-code.ts';

/** One ES module for Node, with everything in it: 24 is what is deployed. */
export const nodeModule = {
  absWorkingDir: packageRoot,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  // The SDK's ES modules can be shaken, its CommonJS can't: that alone is 200 kB.
  mainFields: ['module', 'main'],
  // Some dependencies are CommonJS and ask for Node's own modules by `require`, which an ES module has to be given.
  banner: {
    js: "import{createRequire as createRequireOf}from'node:module';const require=createRequireOf(import.meta.url);",
  },
  legalComments: 'none',
  logLevel: 'warning',
} as const satisfies BuildOptions;

export interface Bundle {
  readonly name: BundleName;
  /** Size of the module, which is all that is deployed. */
  readonly bytes: number;
  readonly metafile: Metafile;
}

/** One folder per function, each with an `index.mjs`. The same sources give the same bytes, so an unchanged function is not deployed again. */
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
 * A function finds its credentials in its environment. The SDK loads its other ways of finding some, with clients for sign-on
 * services, only once that has failed: 80 kB that are never reached.
 */
const otherCredentials = ['http', 'ini', 'process', 'sso', 'web-identity'].map(
  (way) => `@aws-sdk/credential-provider-${way}`,
);
