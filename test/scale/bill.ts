import { amountOf } from './facts.ts';

/** What a run used, and what AWS would charge for it. */
export class Bill {
  writeUnits = 0;
  readUnits = 0;
  storeRequests = 0;
  throttled = 0;
  requests = 0;
  invocations = 0;
  gigabyteSeconds = 0;
  socketMessages = 0;
  socketMinutes = 0;
  queueRequests = 0;

  get dollars(): number {
    return (
      this.writeUnits * amountOf('dollarsPerWriteUnit') +
      this.readUnits * amountOf('dollarsPerReadUnit') +
      this.requests * amountOf('dollarsPerRequest') +
      this.invocations * amountOf('dollarsPerInvocation') +
      this.gigabyteSeconds * amountOf('dollarsPerGigabyteSecond') +
      this.socketMessages * amountOf('dollarsPerSocketMessage') +
      this.socketMinutes * amountOf('dollarsPerSocketMinute') +
      this.queueRequests * amountOf('dollarsPerQueueRequest')
    );
  }

  /** The use since an earlier moment. */
  since(earlier: Bill): Bill {
    const used = new Bill();
    for (const name of Object.keys(used) as (keyof Bill)[]) {
      if (name !== 'dollars' && name !== 'since' && name !== 'copy')
        (used as unknown as Record<string, number>)[name] = (this[name] as number) - (earlier[name] as number);
    }
    return used;
  }

  copy(): Bill {
    return this.since(new Bill());
  }
}
