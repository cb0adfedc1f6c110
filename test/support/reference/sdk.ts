/**
 * A page about everything that the package exports, made from the sources: each class, function, option and type with its
 * comment, its members and its example.
 */
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ts } from '@ts-morph/common';
import { wrapped } from './http.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** The sources of the subpaths, in the order of the page. `infra` and `src` become `dist` when the package is built. */
function subpaths(): [name: string, source: string][] {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, { default: string } | string>;
  };
  return Object.entries(exports).flatMap(([path, entry]) =>
    typeof entry === 'string'
      ? []
      : [
          [path.replace('.', 'holdfast'), entry.default.replace('./dist/', '').replace(/js$/, 'ts')] as [
            string,
            string,
          ],
        ],
  );
}

const parsed = new Map<string, ts.SourceFile>();
function sourceOf(path: string): ts.SourceFile {
  const known = parsed.get(path);
  if (known !== undefined) return known;
  const made = ts.createSourceFile(path, readFileSync(join(root, path), 'utf8'), ts.ScriptTarget.ESNext, true);
  parsed.set(path, made);
  return made;
}

type Declared =
  | ts.ClassDeclaration
  | ts.InterfaceDeclaration
  | ts.TypeAliasDeclaration
  | ts.FunctionDeclaration
  | ts.VariableStatement;

interface Exported {
  readonly name: string;
  readonly node: Declared;
}

const isExported = (node: ts.Statement): boolean =>
  (ts.canHaveModifiers(node) ? (ts.getModifiers(node) ?? []) : []).some(
    ({ kind }) => kind === ts.SyntaxKind.ExportKeyword,
  );

/** The declarations that a module exports, in its own order, through re-exports. */
function exportsOf(path: string): Exported[] {
  const found: Exported[] = [];
  for (const statement of sourceOf(path).statements) {
    if (ts.isExportDeclaration(statement)) {
      const from = statement.moduleSpecifier;
      if (from === undefined || !ts.isStringLiteral(from)) continue;
      const target = resolve('/', dirname(path), from.text).slice(1);
      const wanted = statement.exportClause;
      const all = allOf(target);
      if (wanted === undefined) found.push(...exportsOf(target));
      else if (ts.isNamedExports(wanted)) {
        for (const { name, propertyName } of wanted.elements) {
          const node = all.find((one) => one.name === (propertyName ?? name).text)?.node;
          if (node !== undefined) found.push({ name: name.text, node });
        }
      }
    } else if (isExported(statement)) found.push(...declaredBy(statement));
  }
  return found;
}

/** What a module declares or re-exports under a name. */
const allOf = (path: string): Exported[] => [...sourceOf(path).statements.flatMap(declaredBy), ...exportsOf(path)];

function declaredBy(node: ts.Statement): Exported[] {
  if (ts.isVariableStatement(node))
    return node.declarationList.declarations.map(({ name }) => ({ name: name.getText(), node }));
  const isNamed =
    ts.isClassDeclaration(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isFunctionDeclaration(node);
  return isNamed && node.name !== undefined ? [{ name: node.name.text, node }] : [];
}

interface Comment {
  readonly text: string;
  readonly example: string | undefined;
}

function commentOf(node: ts.Node): Comment {
  const docs = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc);
  const doc = docs.at(-1);
  const text = (ts.getTextOfJSDocComment(doc?.comment) ?? '').replace(/\{@link ([\w.]+)(?: \| [^}]*)?\}/g, '`$1`');
  const tag = doc?.tags?.find(({ tagName }) => tagName.text === 'example');
  const example = tag === undefined ? undefined : ts.getTextOfJSDocComment(tag.comment);
  return { text: text.replace(/\s+/g, ' ').trim(), example: example?.trim() };
}

const cell = (text: string): string => text.replace(/\s+/g, ' ').replaceAll('|', '\\|');
const code = (text: string): string => `\`${cell(text)}\``;

/** A signature without its body and its modifiers. */
function signatureOf(node: ts.FunctionLikeDeclaration | ts.MethodSignature, name: string): string {
  const parameters = node.parameters
    .map(({ name: parameter, questionToken, initializer, type }) => {
      const mark = questionToken === undefined && initializer === undefined ? '' : '?';
      const shown = ts.isIdentifier(parameter) ? parameter.text : 'options';
      return `${shown}${mark}${type === undefined ? '' : `: ${type.getText()}`}`;
    })
    .join(', ');
  const generics =
    node.typeParameters === undefined ? '' : `<${node.typeParameters.map((one) => one.getText()).join(', ')}>`;
  return `${name}${generics}(${parameters})${node.type === undefined ? '' : `: ${node.type.getText()}`}`;
}

const isHidden = (node: ts.ClassElement | ts.TypeElement): boolean =>
  (node.name !== undefined && ts.isPrivateIdentifier(node.name)) ||
  (ts.canHaveModifiers(node) ? (ts.getModifiers(node) ?? []) : []).some(({ kind }) =>
    [ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword].includes(kind),
  );

/** One row for each public member. Overloads have one row each, and their implementation has none. */
function memberRows(members: readonly (ts.ClassElement | ts.TypeElement)[]): string[] {
  const overloaded = new Set(
    members.filter((one) => ts.isMethodDeclaration(one) && one.body === undefined).map((one) => one.name?.getText()),
  );
  return members
    .filter((member) => !isHidden(member))
    .filter(
      (member) =>
        !(ts.isMethodDeclaration(member) && member.body !== undefined && overloaded.has(member.name.getText())),
    )
    .flatMap((member) => {
      const name = member.name?.getText() ?? '';
      const about = cell(commentOf(member).text);
      if (ts.isMethodDeclaration(member) || ts.isMethodSignature(member))
        return `| ${code(signatureOf(member, name))} | ${about} |`;
      if (ts.isPropertyDeclaration(member) || ts.isPropertySignature(member)) {
        const mark = member.questionToken === undefined ? '' : '?';
        const type = member.type === undefined ? '' : `: ${member.type.getText().replace(/ \| undefined$/, '')}`;
        return name.startsWith('[') ? [] : `| ${code(`${name}${mark}${type}`)} | ${about} |`;
      }
      if (ts.isGetAccessor(member))
        return `| ${code(`${name}${member.type === undefined ? '' : `: ${member.type.getText()}`}`)} | ${about} |`;
      if (ts.isConstructorDeclaration(member)) return `| ${code(signatureOf(member, 'constructor'))} | ${about} |`;
      return [];
    });
}

const kindOf = (node: Declared): string => {
  if (ts.isClassDeclaration(node)) return 'class';
  if (ts.isInterfaceDeclaration(node)) return 'interface';
  if (ts.isTypeAliasDeclaration(node)) return 'type';
  return ts.isFunctionDeclaration(node) ? 'function' : 'constant';
};

function inherits(node: Declared): string {
  if (!ts.isClassDeclaration(node) && !ts.isInterfaceDeclaration(node)) return '';
  const parents = (node.heritageClauses ?? []).flatMap(({ types }) =>
    types.map((type) => type.getText().replace(/\(.*$/s, '')),
  );
  return parents.length === 0 ? '' : `, with everything of ${parents.map(code).join(' and ')}`;
}

function section({ name, node }: Exported): string[] {
  const { text, example } = commentOf(node);
  const members = ts.isClassDeclaration(node) || ts.isInterfaceDeclaration(node) ? memberRows([...node.members]) : [];
  const lines = [
    `### ${name}`,
    '',
    ...wrapped(`${kindOf(node).charAt(0).toUpperCase()}${kindOf(node).slice(1)}${inherits(node)}.`),
  ];
  if (text !== '') lines.push('', ...wrapped(text));
  if (ts.isFunctionDeclaration(node)) lines.push('', '```text', signatureOf(node, name), '```');
  if (ts.isTypeAliasDeclaration(node)) lines.push('', '```text', node.getText().replace(/^export /, ''), '```');
  if (members.length > 0) lines.push('', '| member | meaning |', '|---|---|', ...members);
  if (example !== undefined) lines.push('', ...example.replace(/^```ts/, '```text').split('\n'));
  return [...lines, ''];
}

/** What the page says about each subpath. */
const about: Readonly<Record<string, string>> = {
  holdfast: 'The client of the service.',
  'holdfast/server': 'Direct mode: the same client straight on the table.',
  'holdfast/cdk': 'The constructs for your own stack.',
  'holdfast/testing': 'The twin, for your tests.',
  'holdfast/guards': 'Fence checks in your own data.',
  'holdfast/opentelemetry': 'Spans for waiting and holding.',
  'holdfast/durable': 'Locks around steps of Lambda durable functions.',
  'holdfast/middleware': 'Locks around Lambda handlers.',
};

export function sdkReference(): string {
  const sections = subpaths().map(([name, source]) => {
    const exported = exportsOf(source);
    const seen = new Set<string>();
    return {
      name,
      exported: exported
        .filter((one) => seen.size < seen.add(one.name).size)
        .sort((one, other) => one.name.localeCompare(other.name)),
    };
  });
  return [
    '# SDK reference',
    '',
    '`npm run docs:reference` makes this page from the sources. A test fails if the two differ. [The SDK](../sdk.md)',
    'is the page to begin with, and [options](../options.md) has the defaults of all options in tables.',
    '',
    '| import | what is in it |',
    '|---|---|',
    ...sections.map(
      ({ name, exported }) =>
        `| [\`${name}\`](#${name.replace(/[^a-z]/g, '')}) | ${about[name] ?? ''} ${exported.length} exports. |`,
    ),
    '',
    ...sections.flatMap(({ name, exported }) => [
      `## ${name}`,
      '',
      about[name] ?? '',
      '',
      ...exported.flatMap(section),
    ]),
  ]
    .join('\n')
    .replace(/\n+$/, '\n');
}
