/**
 * openapi-typescript needs the compiler API of TypeScript 5, which TypeScript 7 does not have. `@ts-morph/common`
 * contains it, without a `tsc` that would replace ours. If this file is loaded by `--import`, it replaces the package
 * `typescript`.
 */
import { registerHooks } from 'node:module';
import { ts } from '@ts-morph/common';

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'typescript' ? { url: import.meta.url, shortCircuit: true } : next(specifier, context),
});

export default ts;
