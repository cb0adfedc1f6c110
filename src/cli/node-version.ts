/**
 * The oldest Node that can run this program. package.json says the same in `engines`, which npm only warns about.
 * Nothing else may be imported here or before the check: an older Node can't parse it.
 */
export const nodeMajorMin = 22;

/** One sentence for the person who typed the command. Undefined if this Node is new enough. */
export function tooOld(version: string): string | undefined {
  if (Number(version.split('.')[0]) >= nodeMajorMin) return undefined;
  return `holdfast needs Node ${nodeMajorMin} or newer, and this is Node ${version}.`;
}
