import { type BenchService, spawnService } from './bench-service.ts';
import type { Contestant } from './contestant.ts';
import { deliveryhero } from './contestants/deliveryhero.ts';
import { lockClientFailClosed, lockClientFailOpen } from './contestants/dynamodb-lock-client.ts';
import { holdfastOverHttp } from './contestants/holdfast-http.ts';
import { holdfastDirect, holdfastSdk } from './contestants/holdfast-sdk.ts';
import { type CountingProxy, startCountingProxy } from './counting-proxy.ts';
import { peersInstalled } from './peers.ts';
import { Started } from './started.ts';
import { type DynamoDBAddress, type DynamoDBStore, ownTables, startDynamoDB } from './stores/dynamodb.ts';

export type EngineName = 'auto' | 'dynamodb-local' | 'dynoxide';

/** A contestant on DynamoDB whose requests pass through its own proxy. */
export interface Counted {
  readonly contestant: Contestant;
  readonly proxy: CountingProxy;
}

/** The service behind a proxy, for operations that only the service has. */
export interface CountedService {
  readonly service: BenchService;
  readonly proxy: CountingProxy;
}

/** One engine and all contestants on it. */
export interface DynamoDBSide {
  readonly store: DynamoDBStore;
  readonly service: BenchService;
  readonly contestants: readonly Contestant[];
  readonly counted: readonly Counted[];
  readonly countedService: CountedService | undefined;
  stop(): Promise<void>;
}

type OnTable = (address: DynamoDBAddress) => Contestant;

/** A second service behind a proxy is started only for counting, because even an idle one reads its table's stream. */
export async function startDynamoDBSide(
  engine: EngineName,
  { counting }: { counting: boolean },
): Promise<DynamoDBSide> {
  const started = new Started();
  try {
    const store = started.add(await startDynamoDB(engine));
    const service = started.add(await spawnService(store.address.endpoint, ownTables.http));
    const peers: OnTable[] = peersInstalled() ? [lockClientFailOpen, lockClientFailClosed, deliveryhero] : [];
    const contestants = [
      holdfastOverHttp(service),
      holdfastSdk(service.url),
      holdfastDirect(store.address, ownTables.direct),
      ...peers.map((make) => make(store.address)),
    ];
    for (const contestant of contestants) started.add(contestant);
    const countedService = counting ? await startCountedService(started, store) : undefined;
    const counted = countedService === undefined ? [] : await startCounted(started, store, countedService, peers);
    return { store, service, contestants, counted, countedService, stop: () => started.stop() };
  } catch (error) {
    await started.stop();
    throw error;
  }
}

async function startCountedService(started: Started, { address }: DynamoDBStore): Promise<CountedService> {
  const proxy = started.add(await startCountingProxy(address.endpoint));
  return { proxy, service: started.add(await spawnService(proxy.endpoint, ownTables.countedHttp)) };
}

async function startCounted(
  started: Started,
  { address }: DynamoDBStore,
  { service, proxy }: CountedService,
  peers: readonly OnTable[],
): Promise<Counted[]> {
  const counted: Counted[] = [{ contestant: holdfastOverHttp(service), proxy }];
  const direct: OnTable = (proxied) => holdfastDirect(proxied, ownTables.countedDirect);
  for (const make of [direct, ...peers]) {
    const own = started.add(await startCountingProxy(address.endpoint));
    counted.push({ contestant: started.add(make({ ...address, endpoint: own.endpoint })), proxy: own });
  }
  return counted;
}
