/**
 * JSON as text. Parsing changes a value: numbers lose digits, one of two equal keys is lost, and escapes become
 * characters. So a value that must be returned exactly is cut out of the text and never parsed.
 */

export interface Member {
  readonly name: string;
  /** The text of its value, without surrounding space. */
  readonly text: string;
}

/**
 * The members of an object, in order, repeated names included. The text must be an object that `JSON.parse` accepts:
 * this function only finds where values begin and end. It counts depth and does not call itself, so deep nesting can't
 * exhaust the stack.
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

/** JSON has four kinds of space. JavaScript's `\s` has more. */
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
  new TypeError(`Expected the text of a JSON object, but got ${text.length} characters of something else.`);
