import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** DynamoDB Local 3 is compiled for Java 17. */
export const javaMajorMin = 17;

export interface Java {
  file: string;
  major: number;
  /** A JDK runs a source file; a bare runtime does not. */
  runsSource: boolean;
}

/** Starting a JVM takes a tenth of a second; ten seconds mean that what is called java is something else. */
const answerWithinMs = 10_000;

/**
 * Asks a java for its modules: one call tells the version and whether the compiler is there, in a form that, unlike the
 * text of `-version`, is the same for every vendor. Java 8 does not know the question and counts as too old.
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

/** The first Java that is new enough: that of JAVA_HOME, else that of the PATH. */
export async function findJava(env: NodeJS.ProcessEnv = process.env): Promise<Java | undefined> {
  const candidates = env.JAVA_HOME ? [join(env.JAVA_HOME, 'bin', 'java'), 'java'] : ['java'];
  for (const file of candidates) {
    const java = await inspect(file, env);
    if (java && java.major >= javaMajorMin) return java;
  }
  return undefined;
}
