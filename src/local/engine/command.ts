/** The program that starts an engine and its arguments. It is not a shell line, so no path needs quoting. */
export interface EngineCommand {
  file: string;
  args: string[];
  /** A text in the engine's command line. It tells an engine left behind from another process with the same pid. */
  mark: string;
}

/** Where an engine keeps its items. Without a folder it keeps them in memory. */
export interface EngineStorage {
  port: number;
  folder?: string;
}
