/**
 * `node test/bench/install-peers.ts`: installs what the benchmark compares with. The clients go into a separate package in this folder. The
 * servers come from Debian, if apt and root are available. None of them is started here: the benchmark starts them while it runs.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, rm, writeFile } from 'node:fs/promises';
import { peersFolder } from './peers.ts';

const packages = ['redis-server', 'etcd-server', 'zookeeper', 'postgresql'];
/** Debian asks this program before it starts a service. 101 means that it must not. */
const policyFile = '/usr/sbin/policy-rc.d';

async function run(file: string, args: readonly string[], cwd?: string): Promise<void> {
  console.log(`> ${file} ${args.join(' ')}`);
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const child = spawn(file, args, { stdio: 'inherit', env, ...(cwd === undefined ? {} : { cwd }) });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${file} ended with ${code}.`);
}

const exists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

async function installServers(): Promise<void> {
  if (process.getuid?.() !== 0 || !(await exists('/usr/bin/apt-get'))) {
    console.log(
      `Servers are installed by apt, as root: ${packages.join(', ')}. The benchmark leaves out what is missing.`,
    );
    return;
  }
  const hasPolicy = await exists(policyFile);
  if (!hasPolicy) await writeFile(policyFile, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    await run('apt-get', ['update']);
    await run('apt-get', ['install', '--yes', '--no-install-recommends', ...packages]);
  } finally {
    if (!hasPolicy) await rm(policyFile);
  }
}

// Nothing of theirs needs to run in order to be installed.
await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], peersFolder);
await installServers();
