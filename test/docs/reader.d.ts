/**
 * What a reader of the pages has: their own code, and packages that this repository does not install. The examples of
 * the pages are compiled with it.
 */
declare const url: string;
declare const locks: import('holdfast').Holdfast;
declare const lock: import('holdfast').HeldLock;
declare const grant: { readonly fence: number };
declare const report: { readonly total: number };
declare const db: {
  query(text: string, values: readonly unknown[]): Promise<{ readonly rowCount: number | null }>;
};
declare const stack: import('aws-cdk-lib').Stack;
declare const certificate: import('aws-cdk-lib/aws-certificatemanager').ICertificate;
declare const hostedZone: import('aws-cdk-lib/aws-route53').IHostedZone;

declare function debit(
  wallet: string,
  amount: number,
  options: { readonly fence: number; readonly signal: AbortSignal },
): Promise<void>;
declare function withdraw(wallet: string, amount: number): Promise<void>;
declare function writeReport(fence: number, signal: AbortSignal): Promise<void>;
declare function book(body: string, fence: number): Promise<void>;

declare function expect(value: unknown): { toBe(expected: unknown): void };

declare module 'pg' {
  interface Result {
    readonly rowCount: number | null;
    readonly rows: Record<string, unknown>[];
  }
  interface PoolClient {
    query(text: string, values?: unknown[]): Promise<Result>;
    release(): void;
  }
  class Pool {
    query(text: string, values?: unknown[]): Promise<Result>;
    connect(): Promise<PoolClient>;
  }
  const pg: { readonly Pool: typeof Pool };
  export default pg;
  export type { PoolClient };
}

declare module 'mysql2/promise' {
  interface ResultSetHeader {
    readonly affectedRows: number;
  }
  interface Connection {
    execute(text: string, values: unknown[]): Promise<[ResultSetHeader | Record<string, unknown>[], unknown]>;
  }
  export function createConnection(uri: string): Promise<Connection>;
}

declare module 'ioredis' {
  export default class Redis {}
}

declare module 'redlock' {
  interface RedlockSignal extends AbortSignal {
    readonly error?: Error;
  }
  export default class Redlock {
    constructor(clients: Iterable<import('ioredis').default>, settings?: { retryCount?: number; retryDelay?: number });
    using<T>(resources: string[], duration: number, routine: (signal: RedlockSignal) => Promise<T>): Promise<T>;
  }
}

declare module 'aws-sdk' {
  export namespace DynamoDB {
    class DocumentClient {}
  }
}

declare module 'dynamodb-lock-client' {
  interface Lock {
    readonly fencingToken: number;
    on(event: 'error', listener: (error: Error) => void): void;
    release(callback: (error?: Error) => void): void;
  }
  export class FailOpen {
    constructor(config: {
      dynamodb: import('aws-sdk').DynamoDB.DocumentClient;
      lockTable: string;
      partitionKey: string;
      heartbeatPeriodMs?: number;
      leaseDurationMs: number;
    });
    acquireLock(id: string, callback: (error: Error | undefined, lock: Lock) => void): void;
  }
}

declare module 'redis' {
  interface Client {
    sendCommand(words: string[]): Promise<unknown>;
  }
  export function createClient(): { connect(): Promise<Client> };
}

declare module 'testcontainers' {
  interface StartedTestContainer {
    getHost(): string;
    getMappedPort(port: number): number;
    stop(): Promise<unknown>;
  }
  class GenericContainer {
    constructor(image: string);
    withEnvironment(environment: Record<string, string>): this;
    withCommand(command: string[]): this;
    withExposedPorts(...ports: number[]): this;
    withWaitStrategy(strategy: object): this;
    start(): Promise<StartedTestContainer>;
  }
  const Wait: { forLogMessage(message: string | RegExp): object };
}

declare function $config(config: {
  app(input: object): { name: string; home: string };
  run(): Promise<Record<string, unknown>>;
}): object;
declare namespace sst.aws {
  // biome-ignore lint/suspicious/noShadowRestrictedNames: SST calls it so.
  class Function {
    constructor(
      name: string,
      options: {
        handler: string;
        environment?: Record<string, string>;
        permissions?: { actions: string[]; resources: string[] }[];
      },
    );
    readonly name: string;
  }
}
