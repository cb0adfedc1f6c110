/** Writes the pages of docs/reference. `npm run docs:reference` runs it. */
import { writeFileSync } from 'node:fs';
import { httpReference } from './http.ts';
import { sdkReference } from './sdk.ts';

export const referencePages: Readonly<Record<string, () => string>> = {
  'docs/reference/http.md': httpReference,
  'docs/reference/sdk.md': sdkReference,
};

if (import.meta.main) for (const [page, made] of Object.entries(referencePages)) writeFileSync(page, made());
