/** How an engine is started: a program and its arguments, never a shell line, so that no path needs quoting. */
export interface EngineCommand {
  file: string;
  args: string[];
  /** Appears in the engine's command line, so that an engine left behind can be told from a stranger with its pid. */
  mark: string;
}

/** Where an engine keeps its items; without a folder it keeps them in memory. */
export interface EngineStorage {
  port: number;
  folder?: string;
}
