/**
 * openapi-typescript needs the compiler API of TypeScript 5, which TypeScript 7 does not have. `@ts-morph/common` has it inside, without
 * a `tsc` that would take the place of ours. Loaded by `--import`, this file stands in for the package `typescript`.
 */
import { registerHooks } from 'node:module';
import { ts } from '@ts-morph/common';

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'typescript' ? { url: import.meta.url, shortCircuit: true } : next(specifier, context),
});

export default ts;
