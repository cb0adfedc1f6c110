/** The built-in engine behind the port: a table in the memory of this process, with no network between. */
import type { MemoryEngine } from '../engine/engine.ts';
import { EngineError } from '../engine/errors.ts';
import type { TableAnswers, TableOperation, TablePort, TableRequests } from './port.ts';

export class BuiltInTable implements TablePort {
  readonly #engine: MemoryEngine;

  constructor(engine: MemoryEngine) {
    this.#engine = engine;
  }

  call<Operation extends TableOperation>(
    operation: Operation,
    request: TableRequests[Operation],
  ): Promise<TableAnswers[Operation]> {
    try {
      return Promise.resolve(this.#engine.call(operation, request) as TableAnswers[Operation]);
    } catch (error) {
      return Promise.reject(error instanceof EngineError ? Object.assign(error, error.more) : error);
    }
  }
}
