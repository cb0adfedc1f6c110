import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** DynamoDB Local 3 is compiled for Java 17. */
export const javaMajorMin = 17;

export interface Java {
  file: string;
  major: number;
  /** A JDK can run a source file. A plain runtime can't. */
  runsSource: boolean;
}

/** A JVM starts in a tenth of a second. After ten seconds, the program called java must be something else. */
const answerWithinMs = 10_000;

/**
 * Lists the modules of a java program: one call shows the version and whether there is a compiler. The format is the
 * same for every vendor, unlike the text of `-version`. Java 8 does not know this option and counts as too old.
 */
async function inspect(file: string, env: NodeJS.ProcessEnv): Promise<Java | undefined> {
  try {
    const { stdout } = await promisify(execFile)(file, ['--list-modules'], { env, timeout: answerWithinMs });
    const major = /^java\.base@(\d+)/m.exec(stdout)?.[1];
    return major === undefined
      ? undefined
      : { file, major: Number(major), runsSource: /^jdk\.compiler@/m.test(stdout) };
  } catch {
    return undefined;
  }
}

/** The first Java that is new enough: from JAVA_HOME, else from the PATH. */
export async function findJava(env: NodeJS.ProcessEnv = process.env): Promise<Java | undefined> {
  const candidates = env.JAVA_HOME ? [join(env.JAVA_HOME, 'bin', 'java'), 'java'] : ['java'];
  for (const file of candidates) {
    const java = await inspect(file, env);
    if (java && java.major >= javaMajorMin) return java;
  }
  return undefined;
}
