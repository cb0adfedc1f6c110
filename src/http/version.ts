import { readFileSync } from 'node:fs';

/** Replaced by the bundler, which has no package.json beside its output. */
declare const HOLDFAST_VERSION: string | undefined;

const fromPackage = (): string => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return version;
};

/** The version that health and the OpenAPI document name. */
export const version: string = typeof HOLDFAST_VERSION === 'string' ? HOLDFAST_VERSION : fromPackage();
