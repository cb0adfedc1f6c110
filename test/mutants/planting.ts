/** Mutants as changes of a file's text: those of the list, and every operator of a file. */
import { readFileSync } from 'node:fs';
import { ts } from '@ts-morph/common';
import type { Mutant } from './list.ts';

const root = new URL('../../', import.meta.url);

/** A mutant that can be planted: the whole text of its file, with the fault. */
export interface Planted {
  readonly name: string;
  readonly file: string;
  readonly source: string;
}

/** The mutant of the list in its file's text, or a sentence that says why it can't be planted. */
export function plant({ name, file, text, instead }: Mutant, read = readSource): Planted | string {
  const source = read(file);
  if (source === undefined) return `"${name}": ${file} does not exist.`;
  const count = source.split(text).length - 1;
  if (count !== 1) return `"${name}": ${file} contains its text ${count} times instead of once:\n${text}`;
  if (instead === text) return `"${name}": it changes nothing.`;
  return { name, file, source: source.replace(text, () => instead) };
}

function readSource(file: string): string | undefined {
  try {
    return readFileSync(new URL(file, root), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** What takes the place of an operator. */
const operators: Readonly<Record<string, readonly string[]>> = {
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
  '&&': ['||'],
  '||': ['&&'],
  '??': ['&&'],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
  '%': ['*'],
};

/** What takes the place of a method. */
const methods: Readonly<Record<string, string>> = {
  min: 'max',
  max: 'min',
  some: 'every',
  every: 'some',
  startsWith: 'endsWith',
  endsWith: 'startsWith',
};

/** Methods whose call is left out: what they are called on takes its place. */
const dropped = new Set(['filter', 'slice', 'sort', 'toSorted', 'reverse', 'toReversed', 'trim', 'toLowerCase']);

/** Every operator, condition, boolean and statement of a file, changed one at a time. */
export function plantAll(file: string, source: string): Planted[] {
  const planted: Planted[] = [];
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  const change = (node: ts.Node, instead: string): void => {
    const [start, end] = [node.getStart(tree), node.getEnd()];
    const { line } = tree.getLineAndCharacterOfPosition(start);
    const shown = `${oneLine(node.parent.getText(tree))}: ${oneLine(source.slice(start, end))} -> ${instead || 'nothing'}`;
    planted.push({
      name: `${file}:${line + 1} ${shown}`,
      file,
      source: source.slice(0, start) + instead + source.slice(end),
    });
  };
  const visit = (node: ts.Node): void => {
    // Types are gone when the code runs.
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    for (const [changed, instead] of changesOf(node, tree)) change(changed, instead);
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return planted;
}

function changesOf(node: ts.Node, tree: ts.SourceFile): [node: ts.Node, instead: string][] {
  if (ts.isBinaryExpression(node)) {
    const isText = [node.left, node.right].some(
      (side) => ts.isStringLiteralLike(side) || ts.isTemplateExpression(side),
    );
    if (isText && node.operatorToken.kind === ts.SyntaxKind.PlusToken) return [];
    const token = node.operatorToken;
    return (operators[token.getText(tree)] ?? []).map((instead) => [token, instead]);
  }
  if (node.kind === ts.SyntaxKind.TrueKeyword) return [[node, 'false']];
  if (node.kind === ts.SyntaxKind.FalseKeyword) return [[node, 'true']];
  if (ts.isIfStatement(node)) return [true, false].map((value) => [node.expression, String(value)]);
  if (ts.isConditionalExpression(node)) return [true, false].map((value) => [node.condition, String(value)]);
  if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken)
    return [[node, node.operand.getText(tree)]];
  if (ts.isExpressionStatement(node)) return [[node, ';']];
  if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
    const { name, expression } = node.expression;
    if (dropped.has(name.text)) return [[node, expression.getText(tree)]];
    const other = methods[name.text];
    return other === undefined ? [] : [[name, other]];
  }
  return [];
}

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 80);
