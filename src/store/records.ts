/**
 * Records in the table. The head decides about every write. It has no TTL: if it were deleted, version and floor would start again, and a
 * stale write would be accepted. It has about 400 bytes. So the value of a record with an end is in a second item, which TTL deletes
 * (docs/decisions/007). The second item has the same partition, and the id of the write to which it belongs.
 */
import type { Expectation, Put, RecordCommand } from '../record/commands.ts';
import { howWritten, stateAfter } from '../record/decide.ts';
import { recordLimits } from '../record/limits.ts';
import { type RecordState, unwrittenRecord, writtenHows } from '../record/state.ts';
import {
  asText,
  type Item,
  type ItemKey,
  instant,
  integer,
  oneOf,
  optional,
  text,
  type Update,
  update,
} from '../table/attributes.ts';
import { type ItemWritten, TableStore } from '../table/item-table.ts';
import { StoreError } from '../table/store-error.ts';
import { after, type EpochMs, toTtlSeconds } from '../time/clock.ts';

export interface RecordKey {
  readonly namespace: string;
  readonly key: string;
}

/**
 * The outcome of a write. A refusal has the state that refused it, so that no read is needed. The state that an applied
 * write made may lack the ids of earlier writes.
 */
export interface RecordWritten {
  readonly applied: boolean;
  readonly state: RecordState;
}

/** The id of each of the latest writes is a separate attribute, newest first, so that one update can move all of them. */
const writeIdNames = Array.from({ length: recordLimits.writeIdsRemembered }, (_, index) => `w${index}`);
const writeIdWords = writeIdNames.map((_, index) => `writeId${index}`);

export const recordWords = {
  ...Object.fromEntries(writeIdNames.map((name, index) => [`writeId${index}`, name])),
  partition: 'pk',
  version: 'v',
  /** The value's JSON text. A tombstone has none. */
  value: 'val',
  /** The highest fence that was accepted. Undefined if no write had a fence. */
  floor: 'floor',
  updatedAt: 'at',
  /** The write that made this version, and what it did. */
  writeId: 'wid',
  how: 'how',
  expiresAt: 'exp',
  collectAt: 'ttl',
} as const;

const headSortKey = 'record';
const valueSortKey = 'value';

/** A host whose clock is behind must still find a value that it counts as present. A minute is far more than two clocks differ. */
const keptAfterEndMs = 60_000;

export const recordPartition = ({ namespace, key }: RecordKey): string => `${namespace}/record/${key}`;

export const recordHeadKey = (key: RecordKey): ItemKey => ({ pk: recordPartition(key), sk: headSortKey });

export const recordValueKey = (key: RecordKey): ItemKey => ({ pk: recordPartition(key), sk: valueSortKey });

export const toValueItem = (key: RecordKey, value: string, writeId: string, expiresAt: EpochMs): Item => ({
  ...recordValueKey(key),
  [recordWords.writeId]: writeId,
  [recordWords.value]: value,
  [recordWords.collectAt]: toTtlSeconds(after(expiresAt, keptAfterEndMs)),
});

const needsValueItem = (head: Item | undefined): head is Item => head?.[recordWords.expiresAt] !== undefined;

const versionIn = (head: Item | undefined): number => (head === undefined ? 0 : integer(head, recordWords.version));

/** Undefined if the head and the value come from different writes. A value that was deleted belongs to every head. */
export function fromRecordItems(head: Item | undefined, valueItem: Item | undefined): RecordState | undefined {
  if (head === undefined) return unwrittenRecord;
  const { writeId } = recordWords;
  if (needsValueItem(head) && valueItem !== undefined && head[writeId] !== valueItem[writeId]) return undefined;
  const holder = needsValueItem(head) ? (valueItem ?? {}) : head;
  return {
    version: integer(head, recordWords.version),
    value: optional(text, holder, recordWords.value) ?? null,
    floor: optional(integer, head, recordWords.floor) ?? null,
    how: oneOf(head, recordWords.how, writtenHows),
    writeIds: writeIdsIn(head),
    updatedAt: instant(head, recordWords.updatedAt),
    expiresAt: optional(instant, head, recordWords.expiresAt) ?? null,
  };
}

/** A release that knew only the latest write left the others unchanged. Then they don't count, because their versions are unknown. */
function writeIdsIn(head: Item): string[] {
  const latest = text(head, recordWords.writeId);
  const ids = writeIdNames.map((name) => head[name]).filter((id) => id !== undefined && id !== null);
  return ids[0] === latest ? ids.map((id) => asText(id, 'a write id')) : [latest];
}

/** There is a record: its value is in the head, or its end has not come yet. A tombstone has neither. */
const isThere = '(attribute_exists(value) OR expiresAt > :now)';

/** Holds only for the version that the caller saw, for any record, or if there is none. */
const isAsExpected: Record<Expectation['kind'], string> = {
  version: `${isThere} AND version = :expected`,
  present: isThere,
  absent: `NOT ${isThere}`,
};
const isUnfenced = 'attribute_not_exists(floor)';
/** This write was not accepted before. So a request that the SDK sent twice, or that a caller repeated, has one effect. */
const isNew = `NOT writeId = :writeId AND NOT (:writeId IN (${writeIdWords.join(', ')}))`;

/** The newest write becomes the first, each earlier one moves up by one, and the oldest is forgotten. */
const rememberWrite = writeIdWords.map((word, index) =>
  index === 0 ? `${word} = :writeId` : `${word} = if_not_exists(${writeIdWords[index - 1]}, :none)`,
);

/**
 * Every write of a record, as one conditional update of its head that needs no read. It writes only if `decide` would:
 * a property test compares the two. If `seen` is given, the head must also still have that version (0: no head).
 *
 * Safe because one condition makes three claims: the record is as the caller expects; no higher fence was accepted, and
 * no fence at all if this write has none; and this write is new.
 */
export function writeIfAllowed(command: RecordCommand, now: EpochMs, seen?: number): Update {
  const { kind, expects, fence, writeId } = command;
  const { expiresAt } = stateAfter(command, { version: 0, earlier: [] }, now);
  const inHead = kind === 'put' && expiresAt === null;
  const isAsSeen = seen === 0 ? ['attribute_not_exists(version)'] : ['version = :seen'];
  return update(
    {
      set: [
        'version = if_not_exists(version, :zero) + :one',
        'updatedAt = :now',
        'writeId = :writeId',
        'how = :how',
        ...rememberWrite,
        ...(inHead ? ['value = :value'] : []),
        ...(expiresAt === null ? [] : ['expiresAt = :expiresAt']),
        ...(fence === undefined ? [] : ['floor = :fence']),
      ],
      remove: [...(inHead ? [] : ['value']), ...(expiresAt === null ? ['expiresAt'] : [])],
      when: [
        isAsExpected[expects.kind],
        fence === undefined ? isUnfenced : `(${isUnfenced} OR floor <= :fence)`,
        isNew,
        ...(seen === undefined ? [] : isAsSeen),
      ].join(' AND '),
    },
    recordWords,
    {
      zero: 0,
      one: 1,
      none: null,
      now,
      writeId,
      how: howWritten(command),
      value: kind === 'put' ? command.value : undefined,
      expiresAt,
      fence,
      expected: expects.kind === 'version' ? expects.version : undefined,
      seen,
    },
  );
}

/**
 * Head and value are two items, and others may write between two reads. Only on a very busy record this happens so
 * often in a row.
 */
const triesMax = 5;

/** The head, and the value if it has its own item. */
const recordItemsMax = 2;

interface Attempted {
  readonly written: ItemWritten;
  /** The version that the write made, if it was applied. */
  readonly version: number;
  /** Others wrote after the version was read. That says nothing about this write yet. */
  readonly isLate?: boolean;
}

type PutWithEnd = Put & { readonly expiresInMs: number };

const hasEnd = (command: RecordCommand): command is PutWithEnd =>
  command.kind === 'put' && command.expiresInMs !== undefined;

/**
 * Keeps one item per record for ever, and a second one for the value if the record has an end. After a deletion the item is
 * small, and has only the version and the floor. It decides nothing: it writes what `decide` would write, and nothing if
 * `decide` would not. If the outcome is unknown, it throws `StoreError`.
 */
export class RecordStore extends TableStore {
  /** Strongly consistent. A record that was never written is `unwrittenRecord`. */
  async read(key: RecordKey): Promise<RecordState> {
    return this.#untilWhole(async () => {
      // One query finds both items, so a record with an end costs no second request.
      const items = await this.table.query(
        {
          where: 'partition = :partition',
          words: recordWords,
          values: { partition: recordPartition(key) },
          consistent: true,
        },
        recordItemsMax,
      );
      const head = items.find(({ sk }) => sk === headSortKey);
      return fromRecordItems(
        head,
        items.find((item) => item !== head),
      );
    });
  }

  /** Carries out a command in one write, without a read. Refused exactly if `decide` would not change the state. */
  async attempt(key: RecordKey, command: RecordCommand, now: EpochMs): Promise<RecordWritten> {
    let perhapsMine = false;
    return this.#untilWhole(async () => {
      const attempted = hasEnd(command)
        ? await this.#writeWithEnd(key, command, now)
        : await this.#write(key, command, now);
      const { written, version, isLate } = attempted;
      if (written.applied) return { applied: true, state: stateAfter(command, { version, earlier: [] }, now) };
      perhapsMine ||= written.perhapsMine;
      if (isLate) return undefined;
      const { item: head } = written;
      const valueItem = needsValueItem(head) ? await this.table.get(recordValueKey(key)) : undefined;
      const state = fromRecordItems(head, valueItem);
      if (state === undefined) return undefined;
      if (perhapsMine && mayHaveBeenReplaced(command, state))
        throw new StoreError(
          'unavailable',
          'Others wrote after a try whose answer was lost. It is not known whether that try was written.',
        );
      return { applied: false, state };
    });
  }

  /** One conditional update. */
  async #write(key: RecordKey, command: RecordCommand, now: EpochMs): Promise<Attempted> {
    const { expects } = command;
    const known = expects.kind === 'version' ? expects.version + 1 : undefined;
    // A caller that names a version knows the next one. To ask for the item would only return the value that was sent.
    const wantsItem = known === undefined;
    const written = await this.table.update(recordHeadKey(key), writeIfAllowed(command, now), { wantsItem });
    return { written, version: known ?? versionIn(written.item) };
  }

  /** Head and value in one transaction. It returns no item, so if the caller named no version, the head is read first. */
  async #writeWithEnd(key: RecordKey, command: PutWithEnd, now: EpochMs): Promise<Attempted> {
    const { expects, value, writeId, expiresInMs } = command;
    const beside = toValueItem(key, value, writeId, after(now, expiresInMs));
    const put = (seen?: number) =>
      this.table.updateWith(recordHeadKey(key), writeIfAllowed(command, now, seen), beside);
    if (expects.kind === 'version') return { written: await put(), version: expects.version + 1 };
    const seen = versionIn(await this.table.get(recordHeadKey(key)));
    const written = await put(seen);
    const isLate = !written.applied && versionIn(written.item) !== seen;
    return { written, version: seen + 1, isLate };
  }

  /** Reads again while others write in between. */
  async #untilWhole<T>(look: () => Promise<T | undefined>): Promise<T> {
    for (let tries = 0; tries < triesMax; tries++) {
      const found = await look();
      if (found !== undefined) return found;
    }
    throw new StoreError('conflict', 'Others wrote to the record each time that it was read.');
  }
}

/**
 * Whether an earlier try of this write may have been written and then replaced. Then it is unknown whether it was
 * refused.
 */
function mayHaveBeenReplaced({ expects, writeId }: RecordCommand, { version, writeIds }: RecordState): boolean {
  if (writeIds.includes(writeId)) return false;
  return expects.kind === 'version' ? version > expects.version + 1 : version > 1;
}
