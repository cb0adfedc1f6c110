import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import * as z from 'zod';
import { errorText } from '../../tools/error-text.ts';
import type { Log } from '../../tools/log.ts';

/**
 * The last record of each shard that the handler has taken. It belongs to one stream: dynoxide gives the shard of a
 * re-created table the same name, and its sequence numbers may start again.
 */
export interface Checkpoint {
  readonly streamArn: string;
  readonly shards: Readonly<Record<string, string>>;
}

export interface Checkpoints {
  /** Null if there has never been one. */
  load(): Promise<Checkpoint | null>;
  /**
   * Notes the checkpoint, and may write it later. If a checkpoint is lost, records are repeated, but none is skipped.
   */
  save(checkpoint: Checkpoint): void;
  /** Resolves when the last checkpoint is on disk. */
  flush(): Promise<void>;
}

export function memoryCheckpoints(initial: Checkpoint | null = null): Checkpoints {
  let kept = initial;
  return {
    load: async () => kept,
    save: (checkpoint) => {
      kept = checkpoint;
    },
    flush: async () => {},
  };
}

const checkpointFile = z.object({ streamArn: z.string(), shards: z.record(z.string(), z.string()) });

/** A crash repeats at most this much. A write to disk for each batch would cost more than the batch itself. */
const defaultWriteDelayMs = 200;

export function fileCheckpoints(path: string, logger: Log, writeDelayMs = defaultWriteDelayMs): Checkpoints {
  let pending: Checkpoint | null = null;
  let timer: NodeJS.Timeout | null = null;
  // Writes run one after the other, because two at once would share the temporary file.
  let writing: Promise<void> = Promise.resolve();

  const write = (): Promise<void> => {
    if (timer) clearTimeout(timer);
    timer = null;
    writing = writing
      .catch(() => {})
      .then(async () => {
        const checkpoint = pending;
        if (!checkpoint) return;
        await replaceFile(path, `${JSON.stringify(checkpoint, null, 2)}\n`);
        // Keep the checkpoint for the next write if this write failed. Keep a newer one too.
        if (pending === checkpoint) pending = null;
      });
    return writing;
  };

  return {
    load: () => readCheckpoint(path, logger),
    save: (checkpoint) => {
      pending = checkpoint;
      timer ??= setTimeout(() => {
        write().catch((error) =>
          logger.error('stream pump: the checkpoint was not written', { path, error: errorText(error) }),
        );
      }, writeDelayMs).unref();
    },
    flush: write,
  };
}

async function readCheckpoint(path: string, logger: Log): Promise<Checkpoint | null> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  try {
    return checkpointFile.parse(JSON.parse(text));
  } catch (error) {
    // An unreadable checkpoint must not look like a first start, which may begin at the latest record. A checkpoint
    // without a stream makes the pump read everything.
    logger.warn('stream pump: the checkpoint is unreadable, reading the stream from its start', {
      path,
      error: errorText(error),
    });
    return { streamArn: '', shards: {} };
  }
}

/** After a crash at any moment, the file has either the old text or the new text, never a part of one. */
async function replaceFile(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.tmp`;
  const file = await open(temporary, 'w');
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
}
