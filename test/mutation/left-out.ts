/**
 * Code whose mutants are not planted, each part with the reason. StrykerJS asks about every node of a file before it
 * makes mutants of it.
 */

/** A node of the syntax tree, as far as it is looked at here. */
interface Node {
  readonly type: string;
  readonly name?: string;
  readonly callee?: Node;
  readonly property?: Node;
  readonly arguments?: readonly Node[];
}

interface Place {
  readonly node: Node;
  readonly parent?: Node;
}

/** Functions of src/contract/fields.ts whose last argument says what a field means. */
const describing = new Set(['integer', 'text', 'named', 'integerText', 'pageSize']);

const nameOf = (callee: Node | undefined): string | undefined => callee?.property?.name ?? callee?.name;

function isMeaning({ node, parent }: Place): boolean {
  if (parent?.type !== 'CallExpression' || parent.arguments?.at(-1) !== node) return false;
  if (node.type !== 'StringLiteral' && node.type !== 'TemplateLiteral') return false;
  const name = nameOf(parent.callee);
  return name === 'describe' || describing.has(name ?? '');
}

export const leftOut = [
  {
    shouldIgnore: (place: Place): string | undefined =>
      isMeaning(place) ? 'It says what a field means, for people. A test could only repeat the sentence.' : undefined,
  },
];
