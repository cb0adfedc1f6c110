/**
 * Keeps what the engine holds in one append-only file, so that nothing acknowledged is lost if the process is killed or
 * the machine loses power.
 *
 * Each change is one line of JSON, and a transaction is one line too, so it is there as a whole or not at all. An answer
 * leaves only after the lines before it are on the disk (fdatasync). Lines that come while the disk works are written
 * together, so a busy service pays for one flush and not for each request.
 *
 * A line that was cut off by a crash can only be the last one, and nobody was answered for it. It is removed on opening.
 */
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Entry, MemoryEngine } from './engine.ts';
import { EngineError } from './errors.ts';

const fileName = 'journal.jsonl';
/** Reading a million lines takes seconds. A file with this many lines more than items is written anew. */
const linesMax = 100_000;
/** Read in pieces, because a file may be larger than the longest string. */
const pieceBytes = 1024 * 1024;

/** The file says something that the engine can't have written. */
export class DamagedJournal extends Error {
  override readonly name = 'DamagedJournal';
}

/** The file, opened for appending. */
type JournalFile = Pick<FileHandle, 'appendFile' | 'datasync' | 'close'>;
type OpenFile = (path: string) => Promise<JournalFile>;

export class Journal {
  readonly #path: string;
  readonly #engine: MemoryEngine;
  readonly #openFile: OpenFile;
  #file: JournalFile;
  #lines: number;
  #waiting: string[] = [];
  #flushing: Promise<void> | undefined;
  #failure: Error | undefined;
  #onFailure: (error: Error) => void = () => {};
  /** Resolves if the disk fails. From then on nothing is acknowledged any more. */
  readonly failed = new Promise<Error>((resolve) => {
    this.#onFailure = resolve;
  });

  private constructor(
    path: string,
    engine: MemoryEngine,
    { file, openFile, lines }: { file: JournalFile; openFile: OpenFile; lines: number },
  ) {
    this.#path = path;
    this.#openFile = openFile;
    this.#engine = engine;
    this.#file = file;
    this.#lines = lines;
    engine.onEntry = (entry) => {
      this.#waiting.push(lineOf(entry));
    };
  }

  /** Reads the file into an empty engine, and keeps everything that the engine does from now on. */
  static async open(
    folder: string,
    engine: MemoryEngine,
    openFile: OpenFile = (path) => open(path, 'a'),
  ): Promise<Journal> {
    const path = join(folder, fileName);
    const isNew = !existsSync(path);
    const lines = isNew ? 0 : restore(path, engine);
    const file = await openFile(path);
    if (isNew) syncFolder(folder);
    const journal = new Journal(path, engine, { file, openFile, lines });
    if (journal.#isLong()) await journal.#writeAnew();
    return journal;
  }

  /** Resolves when everything that the engine has done until now is on the disk. Rejects if that is not possible. */
  async flushed(): Promise<void> {
    if (this.#failure !== undefined) throw unkept(this.#failure);
    if (this.#waiting.length === 0) {
      await this.#flushing;
      return;
    }
    // Lines that wait now are part of the next flush, which begins after the current one.
    await this.#flushing;
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
    });
    await this.#flushing;
  }

  async close(): Promise<void> {
    await this.flushed().catch(() => undefined);
    this.#engine.onEntry = undefined;
    await this.#file.close();
  }

  async #flush(): Promise<void> {
    const lines = this.#waiting.splice(0);
    if (lines.length === 0) return;
    try {
      await this.#file.appendFile(lines.join(''));
      await this.#file.datasync();
      this.#lines += lines.length;
      if (this.#isLong()) await this.#writeAnew();
    } catch (error) {
      this.#failure = error as Error;
      this.#onFailure(error as Error);
      throw unkept(error);
    }
  }

  #isLong(): boolean {
    return this.#lines > linesMax + this.#engine.itemCount;
  }

  /** Replaces the file by one that has only what the engine holds now. The old file stays until the new one is complete. */
  async #writeAnew(): Promise<void> {
    const draft = `${this.#path}.new`;
    // What waits is part of the snapshot.
    this.#waiting = [];
    const descriptor = openSync(draft, 'w');
    let lines = 0;
    try {
      for (const entry of this.#engine.snapshot()) {
        writeSync(descriptor, lineOf(entry));
        lines += 1;
      }
      fdatasyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(draft, this.#path);
    syncFolder(dirname(this.#path));
    await this.#file.close();
    this.#file = await this.#openFile(this.#path);
    this.#lines = lines;
  }
}

const lineOf = (entry: Entry): string => `${JSON.stringify(entry)}\n`;

const unkept = (cause: unknown): EngineError =>
  new EngineError('InternalServerError', `The journal can't be written: ${(cause as Error).message}`);

/** A new name in a folder is on the disk only after the folder itself is. */
function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Returns the number of lines. */
function restore(path: string, engine: MemoryEngine): number {
  const descriptor = openSync(path, 'r+');
  const piece = Buffer.alloc(pieceBytes);
  let rest = Buffer.alloc(0);
  let lines = 0;
  let goodBytes = 0;
  const take = (line: Buffer) => {
    lines += 1;
    try {
      engine.restore(JSON.parse(line.toString()) as Entry);
    } catch (error) {
      throw new DamagedJournal(`Line ${lines} of ${path} can't be read: ${(error as Error).message}`);
    }
    goodBytes += line.length + 1;
  };
  try {
    for (let read = readSync(descriptor, piece); read > 0; read = readSync(descriptor, piece)) {
      rest = Buffer.concat([rest, piece.subarray(0, read)]);
      let from = 0;
      for (let end = rest.indexOf(10, from); end >= 0; end = rest.indexOf(10, from)) {
        take(rest.subarray(from, end));
        from = end + 1;
      }
      rest = Buffer.from(rest.subarray(from));
    }
    // A line without an end was cut off, and nobody was answered for it.
    if (rest.length > 0) {
      ftruncateSync(descriptor, goodBytes);
      fdatasyncSync(descriptor);
    }
  } finally {
    closeSync(descriptor);
  }
  return lines;
}
