import { cp, mkdtemp, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../', import.meta.url));

/** A copy of the tree in which mutants are planted. */
export async function copyTree(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-mutants-'));
  for (const part of ['src', 'test', 'infra', 'functions', 'docs', 'package.json', 'tsconfig.json', 'cdk.json'])
    await cp(join(root, part), join(folder, part), {
      recursive: true,
      filter: (path) => !path.includes('node_modules'),
    });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}
