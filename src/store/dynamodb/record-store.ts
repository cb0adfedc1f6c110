import type { Put, RecordCommand } from '../../record/commands.ts';
import { stateAfter } from '../../record/decide.ts';
import type { RecordState } from '../../record/state.ts';
import { after, type EpochMs } from '../../time/clock.ts';
import type { RecordKey, RecordStore, RecordWritten } from '../record-store.ts';
import { StoreError } from '../store-error.ts';
import type { Item } from './attributes.ts';
import { ItemTable, type ItemWritten, type TableAccess } from './item-table.ts';
import {
  belongsTogether,
  fromRecordItems,
  isHead,
  needsValueItem,
  recordHeadKey,
  recordPartition,
  recordValueKey,
  recordWords,
  toValueItem,
  versionIn,
  writeIfAllowed,
} from './record-item.ts';

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
}

type PutWithEnd = Put & { readonly expiresInMs: number };

const hasEnd = (command: RecordCommand): command is PutWithEnd =>
  command.kind === 'put' && command.expiresInMs !== undefined;

/** Records in DynamoDB: one item each, and a second one for the value if the record has an end. */
export class DynamoDBRecordStore implements RecordStore {
  readonly #table: ItemTable;

  constructor(access: TableAccess) {
    this.#table = new ItemTable(access);
  }

  async read(key: RecordKey): Promise<RecordState> {
    return this.#untilWhole(async () => {
      // One query finds both items, so a record with an end costs no second request.
      const items = await this.#table.query(
        {
          where: 'partition = :partition',
          words: recordWords,
          values: { partition: recordPartition(key) },
          consistent: true,
        },
        recordItemsMax,
      );
      return wholeState(
        items.find(isHead),
        items.find((item) => !isHead(item)),
      );
    });
  }

  async attempt(key: RecordKey, command: RecordCommand, now: EpochMs): Promise<RecordWritten> {
    return this.#untilWhole(async () => {
      const attempted = hasEnd(command)
        ? await this.#writeWithEnd(key, command, now)
        : await this.#write(key, command, now);
      if (attempted === undefined) return undefined;
      const { written, version } = attempted;
      if (written.applied) return { applied: true, state: stateAfter(command, { version, earlier: [] }, now) };
      const { item: head, perhapsMine } = written;
      const valueItem = needsValueItem(head) ? await this.#table.get(recordValueKey(key)) : undefined;
      const state = wholeState(head, valueItem);
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
    const written = await this.#table.update(recordHeadKey(key), writeIfAllowed(command, now), { wantsItem });
    return { written, version: known ?? versionIn(written.item) };
  }

  /** Head and value in one transaction. It returns no item, so if the caller named no version, the head is read first. */
  async #writeWithEnd(key: RecordKey, command: PutWithEnd, now: EpochMs): Promise<Attempted | undefined> {
    const { expects, value, writeId, expiresInMs } = command;
    const beside = toValueItem(key, value, writeId, after(now, expiresInMs));
    const put = (seen?: number) =>
      this.#table.updateWith(recordHeadKey(key), writeIfAllowed(command, now, seen), beside);
    if (expects.kind === 'version') return { written: await put(), version: expects.version + 1 };
    const seen = versionIn(await this.#table.get(recordHeadKey(key)));
    const written = await put(seen);
    const others = !written.applied && versionIn(written.item) !== seen;
    // Others wrote after the read. That says nothing about this write yet.
    return others ? undefined : { written, version: seen + 1 };
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

/** Undefined if the head and the value come from different writes. */
const wholeState = (head: Item | undefined, valueItem: Item | undefined): RecordState | undefined =>
  belongsTogether(head, valueItem) ? fromRecordItems(head, valueItem) : undefined;
