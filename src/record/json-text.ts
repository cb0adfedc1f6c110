/**
 * JSON as text. A parsed value is not the value that came: numbers lose digits, of two equal keys one goes, and escapes
 * become characters. What must be given back exactly is therefore cut out of the text and never parsed.
 */

export interface Member {
  readonly name: string;
  /** The text of its value, without the space around it. */
  readonly text: string;
}

/**
 * The members of an object, in order, each as often as it stands there. The text must be an object that `JSON.parse` accepts: this
 * finds where values begin and end, and relies on them being well formed. It keeps a depth instead of calling itself, so nesting
 * can't exhaust the stack.
 */
export function membersOf(object: string): Member[] {
  const members: Member[] = [];
  let at = skipSpace(object, skipSpace(object, 0) + 1);
  while (object[at] !== '}') {
    const nameEnd = endOfString(object, at);
    const start = skipSpace(object, skipSpace(object, nameEnd) + 1);
    const end = endOfValue(object, start);
    members.push({ name: JSON.parse(object.slice(at, nameEnd)) as string, text: object.slice(start, end) });
    at = skipSpace(object, end);
    if (object[at] === ',') at = skipSpace(object, at + 1);
  }
  return members;
}

/** JSON knows four kinds of space; JavaScript's `\s` knows more. */
const spaces = /[ \t\n\r]*/y;
const plainToken = /[^ \t\n\r,\]}]+/y;
/** The next character that opens or closes a value, or begins a string. The characters between do not matter. */
const structure = /["[\]{}]/g;
const stringEnd = /["\\]/g;

function skipSpace(text: string, from: number): number {
  spaces.lastIndex = from;
  spaces.test(text);
  return spaces.lastIndex;
}

function endOfString(text: string, opening: number): number {
  stringEnd.lastIndex = opening + 1;
  for (let found = stringEnd.exec(text); found !== null; found = stringEnd.exec(text)) {
    if (found[0] === '"') return found.index + 1;
    stringEnd.lastIndex = found.index + 2;
  }
  throw notJson(text);
}

function endOfValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return endOfString(text, start);
  if (first !== '{' && first !== '[') {
    plainToken.lastIndex = start;
    if (!plainToken.test(text)) throw notJson(text);
    return plainToken.lastIndex;
  }
  let depth = 0;
  structure.lastIndex = start;
  for (let found = structure.exec(text); found !== null; found = structure.exec(text)) {
    if (found[0] === '"') structure.lastIndex = endOfString(text, found.index);
    else depth += found[0] === '{' || found[0] === '[' ? 1 : -1;
    if (depth === 0) return structure.lastIndex;
  }
  throw notJson(text);
}

const notJson = (text: string): TypeError =>
  new TypeError(`Expected the text of a JSON object, got ${text.length} characters of something else.`);
