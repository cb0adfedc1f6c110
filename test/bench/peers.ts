import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const peersFolder = fileURLToPath(new URL('./peers/', import.meta.url));

const requirePeer = createRequire(join(peersFolder, 'package.json'));

export const peersInstalled = (): boolean => existsSync(join(peersFolder, 'node_modules'));

/** Loads a peer's package with the part of its interface that is used here. Types and lint must pass if it isn't installed. */
export function loadPeer<Module>(name: string): Module {
  return requirePeer(name) as Module;
}

export function peerVersion(name: string): string {
  const { dependencies } = requirePeer('./package.json') as { dependencies: Record<string, string> };
  return dependencies[name] ?? 'unknown';
}
