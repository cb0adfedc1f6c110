/** A fault planted by hand: an exact text of a source file, and what takes its place. */
export interface Mutant {
  readonly name: string;
  readonly file: string;
  readonly text: string;
  readonly instead: string;
}

const decide = 'src/lock/decide.ts';
const validity = 'src/lock/validity.ts';
const notifier = 'src/notify/notifier.ts';
const parked = 'src/notify/parked.ts';
const publisher = 'src/notify/publisher.ts';
const streamHandler = 'src/notify/stream-handler.ts';

/**
 * Each is a mistake that somebody could make, in the rules, the use cases, the stores, the notifier or the SDK. Every
 * one must be noticed.
 */
export const mutants: readonly Mutant[] = [
  {
    name: 'the grace is dropped',
    file: validity,
    text: 'after(holder.expiresAt, facts.graceMs + lockDelayMs)',
    instead: 'after(holder.expiresAt, lockDelayMs)',
  },
  {
    name: 'the lock delay is dropped',
    file: validity,
    text: 'after(holder.expiresAt, facts.graceMs + lockDelayMs)',
    instead: 'after(holder.expiresAt, facts.graceMs)',
  },
  {
    name: 'a dead session does not make its waiters absent',
    file: validity,
    text: 'facts.now < waiter.aliveUntil && sessionEnd(waiter, facts) === undefined',
    instead: 'facts.now < waiter.aliveUntil',
  },
  {
    name: 'a dead waiter is granted',
    file: validity,
    text: 'facts.now < waiter.aliveUntil && sessionEnd(waiter, facts) === undefined',
    instead: 'facts.now < waiter.deadlineAt && sessionEnd(waiter, facts) === undefined',
  },
  {
    name: 'a lease under a dead session stays in force',
    file: validity,
    text: 'if (holder.expiresAt === null) return sessionEnd(holder, facts) === undefined;',
    instead: 'if (holder.expiresAt === null) return true;',
  },
  {
    name: 'the revision is not raised',
    file: decide,
    text: 'rev: before.rev + 1, changedAt: facts.now',
    instead: 'rev: before.rev, changedAt: facts.now',
  },
  {
    name: 'an expired lease is renewed',
    file: decide,
    text: '  if (own === undefined) return [before, lost(before, command)];\n  if (!isLive(own, facts)) return [before, lostByTime(own)];',
    instead: '  if (own === undefined) return [before, lost(before, command)];',
  },
  {
    name: 'anybody renews',
    file: decide,
    text: 'const index = before.holders.findIndex(isOf(command));\n  const own = before.holders[index];',
    instead: 'const index = 0;\n  const own = before.holders[index];',
  },
  {
    name: 'a fence is used twice',
    file: decide,
    text: 'const fence = (state.fence === 0 ? facts.now : state.fence) + 1;',
    instead:
      'const fence = state.fence === 0 ? facts.now : Math.max(state.fence, state.holders.length === 0 ? state.fence : state.fence + 1);',
  },
  {
    name: 'the fence restarts after collection',
    file: decide,
    text: '(state.fence === 0 ? facts.now : state.fence) + 1',
    instead: 'state.fence + 1',
  },
  {
    name: 'newcomers skip the queue',
    file: decide,
    text: 'if (settled.queue.length === 0) {',
    instead: 'if (settled.queue.length >= 0) {',
  },
  {
    name: 'the queue is served from its end',
    file: decide,
    text: 'grant({ ...room, queue: room.queue.slice(1) }, head, facts, head.queuedAt)',
    instead: 'grant({ ...room, queue: room.queue.slice(0, -1) }, room.queue.at(-1) as Waiter, facts, head.queuedAt)',
  },
  {
    name: 'a waiter is granted and keeps its place',
    file: decide,
    text: 'served = grant({ ...room, queue: room.queue.slice(1) }, head, facts, head.queuedAt);',
    instead: 'return grant(room, head, facts, head.queuedAt);',
  },
  {
    name: 'a release forgets its successor',
    file: decide,
    text: "return [serve(endHolder(before, own, { how: 'released' }), facts), { kind: 'released', reason: 'ok' }];",
    instead: "return [endHolder(before, own, { how: 'released' }), { kind: 'released', reason: 'ok' }];",
  },
  {
    name: 'a release goes by the name of the owner',
    file: decide,
    text: 'const own = before.holders.find(isOf(command));\n  if (own !== undefined) {\n    if (own.leaseMs === null',
    instead:
      'const own = before.holders.find(isOf(command)) ?? before.holders.find(({ owner }) => command.leaseId.includes(owner));\n  if (own !== undefined) {\n    if (own.leaseMs === null',
  },
  {
    name: 'endings are forgotten',
    file: decide,
    text: 'ended: [ended, ...state.ended].slice(0, lockLimits.endedRemembered)',
    instead: 'ended: state.ended',
  },
  {
    name: 'a late duplicate takes the lock again',
    file: decide,
    text: '  if (ended !== undefined) return [before, answerTo(ended)];\n\n  // Nothing is granted under a session',
    instead: '  void ended;\n\n  // Nothing is granted under a session',
  },
  {
    name: 'a repeated acquire gets another grant',
    file: decide,
    text: "if (own !== undefined) return [before, isLive(own, facts) ? { kind: 'granted', holder: own } : lostByTime(own)];",
    instead: 'if (own !== undefined && !isLive(own, facts)) return [before, lostByTime(own)];',
  },
  {
    name: 'one permit too many is given',
    file: decide,
    text: 'permitsHeld(candidate) + claim.permits <= candidate.limit &&',
    instead: 'permitsHeld(candidate) + claim.permits <= candidate.limit + 1 &&',
  },
  {
    name: 'a revocation ends whoever holds',
    file: decide,
    text: 'const holder = before.holders.find(({ fence }) => fence === command.fence);',
    instead: 'const holder = before.holders.find(({ fence }) => fence >= command.fence);',
  },
  {
    name: 'absent waiters are not dropped',
    file: decide,
    text: '    if (!isPresent(head, facts)) {\n      served = { ...served, queue: served.queue.slice(1) };\n      continue;\n    }\n',
    instead: '',
  },
  {
    name: 'a waiter queues twice',
    file: 'src/store/memory/lock-store.ts',
    text: 'if (known || !taken',
    instead: 'if ((known && false) || !taken',
  },
  {
    name: 'a compare-and-swap does not compare',
    file: 'src/store/memory/lock-store.ts',
    text: 'const unchanged = this.#stateOf(key).rev === next.rev - 1;\n    return',
    instead: 'const unchanged = this.#stateOf(key).rev <= next.rev;\n    return',
  },
  {
    name: 'several locks are not written all or none',
    file: 'src/store/memory/lock-store.ts',
    text: 'if (unchanged) for (const { key, next } of swaps) this.#apply(key, next);',
    instead: 'for (const { key, next } of swaps) if (this.#stateOf(key).rev === next.rev - 1) this.#apply(key, next);',
  },
  {
    name: 'several locks are taken one by one',
    file: 'src/multi/plan.ts',
    text: "if (refusals.length > 0) return { kind: 'refused', refusals };",
    instead: "if (refusals.length > 0 && swaps.length === 0) return { kind: 'refused', refusals };",
  },
  {
    name: 'several locks are gathered in the order asked',
    file: 'src/multi/plan.ts',
    text: '[...entries].sort((one, other) => (one.name < other.name ? -1 : one.name > other.name ? 1 : 0))',
    instead: '[...entries]',
  },
  {
    name: 'what was gathered is not given back',
    file: 'src/service/multi.ts',
    text: 'return await giveBack(context, namespace, request, refusal(entry.name, acquired, since));',
    instead: 'return refusal(entry.name, acquired, since);',
  },
  {
    name: 'a session is kept alive after its end',
    file: 'src/session/decide.ts',
    text: "if (!isOpen(before, facts)) return { next: before, answer: { kind: 'lost' } };",
    instead: "if (before.expiresAt + 60_000 < facts.now) return { next: before, answer: { kind: 'lost' } };",
  },
  {
    name: 'a session that has ended ends again',
    file: 'src/session/decide.ts',
    text: 'if (before === undefined || before.ended !== undefined) return',
    instead: 'if (before === undefined) return',
  },
  {
    name: 'a session is buried too early',
    file: 'src/session/decide.ts',
    text: 'session.ended === undefined && after(session.expiresAt, graceMs) <= now;',
    instead: 'session.ended === undefined && after(session.expiresAt, -graceMs) <= now;',
  },
  {
    name: 'a session is taken for dead before it is marked',
    file: 'src/service/session-lives.ts',
    text: 'return (await this.#store.expire(key, now, epochMs(now - this.#graceMs))).session;',
    instead: "return { ...session, ended: { at: now, how: 'expired' } };",
  },
  {
    name: 'the end of a session wakes nobody',
    file: 'src/service/sessions.ts',
    text: '  await sweepAll(',
    instead: '  if (key.namespace === "") await sweepAll(',
  },
  {
    name: 'a grant under a dead session is told',
    file: 'src/service/under-session.ts',
    text: "return { ...applied, answer: { kind: 'lost', reason: 'session_lost' } };\n  }\n  const facts",
    instead: 'return applied;\n  }\n  const facts',
  },
  {
    name: 'a conflict is swallowed as if it had been written',
    file: 'src/service/apply.ts',
    text: 'if (written.applied) return { answer, state: written.state, facts: known };',
    instead: 'return { answer, state: written.state, facts: known };',
  },
  {
    name: 'a store that does not answer counts as success',
    file: 'src/service/apply.ts',
    text: ': context.store.swap(key, decision.next));',
    instead:
      ': context.store.swap(key, decision.next)).catch(() => ({ applied: true as const, state: decision.next }));',
  },
  {
    name: 'a notified waiter is never woken',
    file: 'src/service/notified-waits.ts',
    text: 'if (!queued.has(leaseId)) for (const wake of copies) wake(state);',
    instead: 'if (!queued.has(leaseId) && leaseId === "") wake(state);',
  },
  {
    name: 'old news counts as new',
    file: 'src/service/lock-memory.ts',
    text: '&& isBefore(state, known.state)) return;',
    instead: '&& isBefore(state, known.state) && key.name === "") return;',
  },
  {
    name: 'nobody sweeps at the end of a lease',
    file: 'src/lock/due.ts',
    text: 'return known.length === 0 ? null : epochMs(Math.min(...known));',
    instead: 'return null;',
  },
  {
    name: 'the floor of a record is not raised',
    file: 'src/record/decide.ts',
    text: 'floor: command.fence ?? null,',
    instead: 'floor: null,',
  },
  {
    name: 'a stale fence writes',
    file: 'src/record/decide.ts',
    text: 'command.fence !== undefined && command.fence < floor)',
    instead: 'command.fence !== undefined && command.fence < floor - 1_000)',
  },
  {
    name: 'the version restarts after a deletion',
    file: 'src/record/decide.ts',
    text: 'const version = before.version + 1;',
    instead: 'const version = before.value === null ? 1 : before.version + 1;',
  },
  {
    name: 'a record is written without looking at its version',
    file: 'src/record/decide.ts',
    text: 'return value !== null && state.version === expects.version;',
    instead: 'return value !== null;',
  },
  {
    name: 'a repeated write is done twice',
    file: 'src/record/decide.ts',
    text: 'const age = writeIds.indexOf(command.writeId);',
    instead: "const age = writeIds.indexOf('another');",
  },
  {
    name: 'a repeated write is done twice once others have written',
    file: 'src/record/decide.ts',
    text: 'const age = writeIds.indexOf(command.writeId);',
    instead: 'const age = writeIds[0] === command.writeId ? 0 : -1;',
  },
  {
    name: 'the SDK retries with a new lease',
    file: 'src/client/claims.ts',
    text: 'acquire({ body: { leaseId, waitMs, ...fields, ...given({ pollMs }) } }),',
    instead: "acquire({ body: { leaseId: 'lease-'.concat(String(Math.random()).slice(2)), waitMs, ...fields } }),",
  },
  {
    name: 'the SDK counts a lease from its answer',
    file: 'src/client/acquire.ts',
    text: 'return { claim, body, from: answer.sentAt, remainingMs };\n  try {',
    instead:
      'return { claim, body, from: { monotonicMs: runtime.monotonicMs(), wallMs: runtime.wallMs() }, remainingMs };\n  try {',
  },
  {
    name: 'the SDK trusts the monotonic clock alone',
    file: 'src/client/runtime.ts',
    text: 'Math.max(0, runtime.monotonicMs() - since.monotonicMs, runtime.wallMs() - since.wallMs)',
    instead: 'Math.max(0, runtime.monotonicMs() - since.monotonicMs)',
  },
  {
    name: 'the SDK tells of a lost lease too late',
    file: 'src/client/keeper.ts',
    text: 'return this.#lastsMs - marginMs - elapsedMs(this.#options.runtime, this.#from);',
    instead: 'return this.#lastsMs + 3 * marginMs - elapsedMs(this.#options.runtime, this.#from);',
  },
  {
    name: 'the SDK believes in a lock that it has given back',
    file: 'src/client/keeper.ts',
    text: 'if (this.#ended || this.#controller.signal.aborted) return false;\n    if (this.#leftMs() > 0) return true;',
    instead: 'if (this.#controller.signal.aborted) return false;\n    if (this.#leftMs() > 0) return true;',
  },
  {
    name: 'a leaseId is shown to others',
    file: 'src/lock/view.ts',
    text: 'standingHolders(state, facts).map((holder) => ({\n    owner: holder.owner,\n    fence: holder.fence,\n    remainingMs',
    instead:
      'standingHolders(state, facts).map((holder) => ({\n    owner: holder.leaseId,\n    fence: holder.fence,\n    remainingMs',
  },
  {
    name: 'an event names the lease',
    file: 'src/lock/events.ts',
    text: "  type: 'queued',\n  owner: waiter.owner,",
    instead: "  type: 'queued',\n  owner: waiter.leaseId,",
  },
  {
    name: 'the one-write cases ignore the queue',
    file: 'src/store/dynamodb/lock-words.ts',
    text: "const nobodyWaits = 'attribute_not_exists(front[0])';",
    instead: "const nobodyWaits = 'attribute_exists(key)';",
  },
  {
    name: 'the one-write hand-off grants to a dead head',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: "'front[0].presentUntil > :now'",
    instead: "'front[0].presentUntil > :zero'",
  },
  {
    name: 'the one-write hand-off reuses the fence',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: "'holderFence = fence + if_not_exists(front[0].fenceStep, :zero)',",
    instead: "'holderFence = fence + :zero',",
  },
  {
    name: 'the one-write renewal does not look at the lease',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: ' AND expiresAt > :now AND changedAt <= :now AND',
    instead: ' OR expiresAt > :now AND changedAt <= :now AND',
  },
  {
    name: 'the one-write arrival queues twice',
    file: 'src/store/dynamodb/queue-writes.ts',
    text: '        notQueued,\n',
    instead: '',
  },
  {
    name: 'the one-write hand-off leaves a tail behind an empty front',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: "'(attribute_exists(front[1]) OR attribute_not_exists(tail[0]))'",
    instead: "'(attribute_exists(front[0]) OR attribute_not_exists(tail[0]))'",
  },
  {
    name: 'the one-write arrival overtakes the tail',
    file: 'src/store/dynamodb/queue-writes.ts',
    text: 'size(front) < :longest AND attribute_not_exists(tail[0]) AND',
    instead: 'size(front) < :longest AND',
  },
  {
    name: 'one that left a long queue gets its place back',
    file: 'src/store/dynamodb/queue-writes.ts',
    text: '.presentUntil <> :struckUntil`;',
    instead: '.presentUntil >= :struckUntil`;',
  },
  {
    name: 'the first in line leaves without a word to those behind it',
    file: 'src/lock/decide.ts',
    text: 'if (!isAll || index === 0 || waiter === undefined)',
    instead: 'if (waiter === undefined)',
  },
  {
    name: 'a refusal is foreseen for a lease that was not seen to hold',
    file: 'src/store/dynamodb/lock-store.ts',
    text: 'holder.leaseId === leaseId && holder.leaseMs !== null',
    instead: 'holder.leaseMs !== null',
  },
  {
    name: 'the table is written without its revision',
    file: 'src/store/dynamodb/lock-store.ts',
    text: "condition('revision = :seen',",
    instead: "condition('revision >= :seen',",
  },
  {
    name: 'a parked waiter is told without looking at the lock again',
    file: parked,
    text: 'const holder = state.holders.find((candidate) => candidate.fence === fence && candidate.leaseId === leaseId);',
    instead: 'const holder: Holder | undefined = granted;',
  },
  {
    name: 'a telling is noted before it is made',
    file: parked,
    text: 'if ((await deliveries.begin(key, fence)).delivered) return;',
    instead:
      'if ((await deliveries.begin(key, fence)).delivered) return;\n  await deliveries.markDelivered(key, fence);',
  },
  {
    name: 'a delivered grant is delivered again with each repeat',
    file: parked,
    text: 'if ((await deliveries.begin(key, fence)).delivered) return;',
    instead: 'await deliveries.begin(key, fence);',
  },
  {
    name: 'a task whose wait ends is left to wait',
    file: parked,
    text: ": deliverFailure(ports, notify, 'timeout', 'The lock was not granted within waitMs.')",
    instead: ': Promise.resolve()',
  },
  {
    name: 'a task whose grant ended before its delivery is left to wait',
    file: parked,
    text: "return deliverFailure(ports, notify, 'lost'",
    instead:
      "if (notify.type !== 'websocket') return Promise.resolve();\n  return deliverFailure(ports, notify, 'lost'",
  },
  {
    name: 'the bus is given the lease of a waiter',
    file: parked,
    text: 'ref: notify.ref, owner, fence, remainingMs: remainingMs(holder, facts) };',
    instead: 'ref: notify.ref, owner, fence, remainingMs: remainingMs(holder, facts), leaseId: holder.leaseId };',
  },
  {
    name: 'a grant that was answered is delivered as well',
    file: 'src/notify/change-events.ts',
    text: '.filter((holder) => holder.queuedAt !== undefined || isAlwaysNotified(holder))',
    instead: '',
  },
  {
    name: 'events of one fence take the same place in history',
    file: 'src/notify/change-events.ts',
    text: "String(rev).padStart(16, '0')",
    instead: "String(rev - rev).padStart(16, '0')",
  },
  {
    name: 'a delivery that failed is not tried again',
    file: streamHandler,
    text: '      left.push(item);\n',
    instead: '',
  },
  {
    name: 'an effect that failed counts as done when the batch comes again',
    file: streamHandler,
    text: 'done.push(...todo.filter((item) => !left.has(item)).map(idOf));',
    instead: 'done.push(...todo.map(idOf));',
  },
  {
    name: 'events that the bus did not take are forgotten',
    file: publisher,
    text: 'return [...new Set(published.filter(({ event }) => left.has(event)).map(({ item }) => item))];',
    instead: 'return left.size < 0 ? items : [];',
  },
  {
    name: 'a delivery that AWS refuses for good is tried again and again',
    file: 'src/notify/aws/outcome.ts',
    text: 'if (status < 400 || status >= 500 || status === 408 || status === 429) return false;',
    instead: 'if (status !== 410) return false;',
  },
  {
    name: 'throttling counts as a refusal for good',
    file: 'src/notify/aws/outcome.ts',
    text: 'if ($retryable?.throttling === true || isThrottling(error.name) || throttlings.has(error.name)) return false;',
    instead: '',
  },
  {
    name: 'a waiter whose bus refuses it for good blocks those behind it',
    file: parked,
    text: "if (untaken.isFinal) return 'gone';",
    instead: '',
  },
  {
    name: 'the notifier waits for the history of a lock',
    file: notifier,
    text: 'return createStreamHandler(notifierEffects(ports), ports.log, ports.meter);',
    instead:
      "return createStreamHandler([...notifierEffects(ports), { name: 'record', run: async (items) => { await (ports as never as { history: { append: (entries: unknown[]) => Promise<unknown> } }).history?.append(items.flatMap(({ events }) => events?.entries ?? [])); return items; } }], ports.log);",
  },
  {
    name: 'the filter keeps the last grant of a queue from the notifier',
    file: 'src/notify/stream-filter.ts',
    text: '  { dynamodb: { Keys: { sk: { S: aLock } }, OldImage: isAwaited } },\n',
    instead: '',
  },
  {
    name: 'a metric loses its namespace past 100 values',
    file: 'src/notify/aws/meter.ts',
    text: '          namespace,\n          byName.map(',
    instead: '          start === 0 ? namespace : undefined,\n          byName.map(',
  },
  {
    name: 'a token reaches namespaces that it does not list',
    file: 'src/http/handler.ts',
    text: "if (namespaces === undefined || ns === undefined || namespaces.includes(ns) || namespaces.includes('*')) return;",
    instead:
      "if (namespaces === undefined || ns === undefined || namespaces.length > 0 || namespaces.includes('*')) return;",
  },
  {
    name: 'a token without the claim reaches every namespace',
    file: 'src/http/api-gateway.ts',
    text: "if (typeof claim !== 'string') return [];",
    instead: "if (typeof claim !== 'string') return ['*'];",
  },
  {
    name: 'two callers that wait under one lease chase each other',
    file: 'src/service/notified-waits.ts',
    text: 'const copies = waits.wakes.get(wait.leaseId) ?? new Set();',
    instead:
      'for (const wake of waits.wakes.get(wait.leaseId) ?? []) wake(waits.known ?? wait.known);\n      const copies = waits.wakes.get(wait.leaseId) ?? new Set();',
  },
  {
    name: 'a key of metadata is lost without a word',
    file: 'src/http/request.ts',
    text: '  refuseProto(body, []);\n',
    instead: '',
  },
  {
    name: 'the trace of the first invocation is sent with every request',
    file: 'src/store/dynamodb/wire.ts',
    text: 'lastingHeaders.has(name.toLowerCase())',
    instead: "(lastingHeaders.has(name.toLowerCase()) || name.toLowerCase() === 'x-amzn-trace-id')",
  },
  {
    name: 'the first waiter sets no timer',
    file: notifier,
    text: 'if (isCalledFor && dueAt !== null) await timers.arm(key, dueAt);',
    instead: 'if (!isCalledFor && dueAt !== null) await timers.arm(key, dueAt);',
  },
  {
    name: 'a parked waiter stays beyond its deadline',
    file: 'src/notify/look-times.ts',
    text: '[nextDueAt(state, facts), ...deadlines].filter(',
    instead: '[nextDueAt(state, facts), ...deadlines.slice(deadlines.length)].filter(',
  },
  {
    name: 'a timer that fires too early is the last',
    file: 'src/notify/reaper.ts',
    text: 'if (nextAt !== null) await timers.arm(key, nextAt, fired);',
    instead: 'if (nextAt !== null && fired === undefined) await timers.arm(key, nextAt);',
  },
  {
    name: 'a fired timer counts as one that is yet to fire',
    file: 'src/notify/aws/timers.ts',
    text: 'noted !== undefined && noted !== fired && noted >',
    instead: 'noted !== undefined && noted >',
  },
  {
    name: 'the sweep stops at the first lock',
    file: 'src/notify/reaper.ts',
    text: '        looked += 1;\n',
    instead: '        looked += 1;\n        break;\n',
  },
  {
    name: 'a timer that could not be handled is not brought again',
    file: 'src/notify/aws/reaper-handler.ts',
    text: '        batchItemFailures.push({ itemIdentifier: messageId });\n',
    instead: '',
  },
  // Faults that were really there once: the ledger in docs/guarantees.md tells how they were found.
  {
    name: 'of several locks those already held are not checked',
    file: 'src/multi/plan.ts',
    text: 'swaps.push({ name, next: next === state ? { ...state, rev: state.rev + 1, changedAt: facts.now } : next });',
    instead: 'if (next !== state) swaps.push({ name, next });',
  },
  {
    name: 'a store that fails gives back what another copy of the request was granted',
    file: 'src/service/multi.ts',
    text: '  } finally {\n    // A store that fails ends this request',
    instead:
      '  } catch (error) {\n    await releaseAll(context, namespace, request.leaseId, request.entries.map(({ name }) => name)).catch(() => undefined);\n    throw error;\n  } finally {\n    // A store that fails ends this request',
  },
  {
    name: 'a keepalive that was long on its way takes time away',
    file: 'src/session/decide.ts',
    text: "      if (after(facts.now, before.ttlMs) <= before.expiresAt) return { next: before, answer: { kind: 'alive' } };\n",
    instead: '',
  },
  {
    name: 'a renewal for less time whose answer is lost is not believed',
    file: 'src/client/keeper.ts',
    text: 'if (leaseMs !== undefined) this.#relyOnAtMost(leaseMs, from);',
    instead: '',
  },
  {
    name: 'a write of a record that may have happened is called refused',
    file: 'src/store/dynamodb/record-store.ts',
    text: 'if (perhapsMine && mayHaveBeenReplaced(command, state))',
    instead: 'if (perhapsMine && state.version < 0)',
  },
  {
    name: 'the version restarts at the end of a record',
    file: 'src/record/decide.ts',
    text: 'const version = before.version + 1;',
    instead: 'const version = hasExpired(before, now) ? 1 : before.version + 1;',
  },
  {
    name: 'the floor is forgotten at the end of a record',
    file: 'src/record/decide.ts',
    text: '  const { floor, writeIds } = before;',
    instead: '  const { writeIds } = before;\n  const floor = hasExpired(before, now) ? null : before.floor;',
  },
  {
    name: 'a late one-write renewal takes time away',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: 'AND expiresAt > :now AND changedAt <= :now AND',
    instead: 'AND expiresAt > :now AND',
  },
  {
    name: 'those behind the dead wait for them',
    file: 'src/service/polled-waits.ts',
    text: 'const isNext = positionOf(state, leaseId, facts) === 1;',
    instead: 'const isNext = state.queue[0]?.leaseId === leaseId;',
  },
  {
    name: 'who was told and can not be found afterwards loses its grant',
    file: parked,
    text: 'if (tries === 1 && (await',
    instead: 'if (tries > 0 && (await',
  },
  {
    name: 'who learned of its grant from a repeated acquire loses it',
    file: parked,
    text: 'if (holder === undefined || holder.expiresAt !== expiresAt) return false;',
    instead: 'if (holder === undefined || expiresAt === undefined) return false;',
  },
  {
    name: 'who renews its grant while it is given up loses it',
    file: parked,
    text: 'const written = await locks.store.swap(key, next);',
    instead:
      'let written = await locks.store.swap(key, next);\n    if (!written.applied) written = await locks.store.swap(key, { ...next, rev: written.state.rev + 1 });',
  },
  {
    name: 'a task that was answered by the first of two tries counts as gone',
    file: 'src/notify/aws/outcome.ts',
    text: ' && attemptsOf(error) === 1',
    instead: ' && attemptsOf(error) > 0',
  },
  {
    name: 'a timer that has fired by another clock counts as yet to fire',
    file: 'src/notify/aws/timers.ts',
    text: 'noted > after(now, lockLimits.graceMs);',
    instead: 'noted > after(now, lockLimits.graceMs - lockLimits.graceMs);',
  },
  {
    name: 'a queue is weighed in characters, not in bytes',
    file: 'src/lock/weight.ts',
    text: 'utf8.encode(JSON.stringify(lasting)).length',
    instead: 'JSON.stringify(lasting).length',
  },
  {
    name: 'the waits of an ended session are not swept',
    file: 'src/service/sessions.ts',
    text: 'for (const { lock } of [...held, ...(written.session?.waits ?? [])]) names.add(lock);',
    instead: 'for (const { lock } of held) names.add(lock);',
  },
  {
    name: 'a deadlock is believed at the first look',
    file: 'src/service/deadlock.ts',
    text: 'if (second === undefined || !isSame(first, second)) return;\n  const victim = youngest(second);',
    instead: 'const victim = youngest(first);\n  if (second === undefined && first.length === 0) return;',
  },
  {
    name: 'a closing client frees the lock of a leader that still works',
    file: 'src/client/election.ts',
    text: '    this.#core.open.delete(lock);',
    instead: '',
  },
  {
    name: 'several locks are taken beyond what the deployment allows',
    file: 'src/http/multi-locks.ts',
    text: '= withinMaxima(context, body);',
    instead: '= body;',
  },
  {
    name: 'a pump that stops counts as taken what was not delivered',
    file: 'src/local/pump.ts',
    text: 'if (delivery.ending.aborted || !last) return;',
    instead: 'if (!last) return;',
  },
  {
    name: 'what is gathered of several locks is held for the short lease that was asked for',
    file: 'src/service/multi.ts',
    text: 'Math.max(request.leaseMs ?? lockLimits.leaseMsDefault, gatherMsMin)',
    instead: '(request.leaseMs ?? lockLimits.leaseMsDefault)',
  },
  {
    name: 'a timer is armed for the first change of a batch instead of the latest',
    file: 'src/notify/notifier.ts',
    text: 'changes.at(-1) as',
    instead: 'changes.at(0) as',
  },
  {
    name: "a renewal's pace ignores how little of the lease is left",
    file: 'src/client/keeper.ts',
    text: '(Math.min(this.#leaseMs, this.#lastsMs) / renewalsPerLease)',
    instead: '(this.#leaseMs / renewalsPerLease)',
  },
  {
    name: 'a client repeats before the time that it was told to wait',
    file: 'src/client/caller.ts',
    text: 'error.retryAfterMs + backoffMs',
    instead: 'backoffMs',
  },
  {
    name: 'a lock is read without asking for consistency',
    file: 'src/store/dynamodb/item-table.ts',
    text: 'Key: { ...key }, ConsistentRead: true }',
    instead: 'Key: { ...key } }',
  },
  {
    name: 'an answer is decoded piece by piece',
    file: 'src/store/dynamodb/wire.ts',
    text: 'resolve(Buffer.concat(chunks).toString());',
    instead: "resolve(chunks.map(String).join(''));",
  },
  {
    name: 'what a batch left unread counts as absent',
    file: 'src/store/dynamodb/item-table.ts',
    text: 'wanted = [...unread, ...wanted.slice(batchReadMax)];',
    instead: 'wanted = wanted.slice(batchReadMax);',
  },
  {
    name: 'a list goes on behind names that begin with its cursor',
    file: 'src/store/dynamodb/lock-store.ts',
    text: "const behind = after === undefined ? '!' : `${after}!`;",
    instead: "const behind = after === undefined ? '!' : `${after}~`;",
  },
  {
    name: 'a list shows the name of its cursor twice',
    file: 'src/store/dynamodb/lock-store.ts',
    text: "const behind = after === undefined ? '!' : `${after}!`;",
    instead: "const behind = after === undefined ? '!' : after;",
  },
  {
    name: 'a list ends where one shard fills a page exactly',
    file: 'src/store/dynamodb/lock-store.ts',
    text: 'merged.length >= limit && last',
    instead: 'merged.length > limit && last',
  },
  {
    name: 'the guardian of a command dies together with its holder',
    file: 'src/cli/guardian-pipe.ts',
    text: '      detached: true,\n',
    instead: '',
  },
  {
    name: 'a renewal sets a TTL on a semaphore that a session partly holds',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: 'changedAt <= :now AND ${noSessionHolds}`',
    instead: 'changedAt <= :now`',
  },
  {
    name: 'a grant sets a TTL on a semaphore that a session partly holds',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: "${bySession ? '' : ` AND ${noSessionHolds}`}",
    instead: '',
  },
  {
    name: 'a release sets a TTL on a semaphore that a session partly holds',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: '${nobodyWaits} AND ${noSessionHolds}`',
    instead: '${nobodyWaits}`',
  },
  {
    name: 'a lock that was handed over is still found by the session before',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: "remove: ['front[0]', 'sessionDigest'],",
    instead: "remove: ['front[0]'],",
  },
  {
    name: 'a lock held by a session is not found by it',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: "...(bySession && isExclusive ? ['sessionDigest = :sessionDigest'] : []),",
    instead: '',
  },
  {
    name: 'a lock taken by a session keeps its TTL',
    file: 'src/store/dynamodb/lock-writes.ts',
    text: "remove: bySession ? ['collectAt', 'expiresAt'] : [],",
    instead: "remove: bySession ? ['expiresAt'] : [],",
  },
  {
    name: 'a floor that is null counts as none',
    file: 'src/guards/fence.ts',
    text: 'if (Number.isSafeInteger(floor)) return floor;',
    instead: 'if (Number.isSafeInteger(floor)) return floor;\n  if (stored === null) return 0;',
  },
  {
    name: 'a fence of zero is taken for one',
    file: 'src/guards/fence.ts',
    text: 'Number.isSafeInteger(fence) && fence > 0',
    instead: 'Number.isSafeInteger(fence) && fence >= 0',
  },
  {
    name: 'the middleware hides that the lease was lost',
    file: 'src/middleware/lock.ts',
    text: '      signal.throwIfAborted();\n',
    instead: '',
  },
  {
    name: 'a message overtakes a failed one of its group',
    file: 'src/middleware/records.ts',
    text: 'if (group !== undefined) this.#brokenGroups.add(group);',
    instead: '',
  },
  {
    name: 'an error shows a session id',
    file: 'src/http/request.ts',
    text: "new Set(['leaseId', 'sessionId', 'id',",
    instead: "new Set(['leaseId', 'id',",
  },
  {
    name: 'a body is measured in characters',
    file: 'src/http/request.ts',
    text: 'const bytes = Buffer.byteLength(body);',
    instead: 'const bytes = body.length;',
  },
  {
    name: 'a page of no known origin reaches the local service',
    file: 'src/local/access.ts',
    text: "return originHost !== undefined && isOurs(originHost) ? undefined : refuse('Origin', origin);",
    instead: "return originHost === undefined || isOurs(originHost) ? undefined : refuse('Origin', origin);",
  },
  {
    name: 'a host that only begins like loopback reaches the local service',
    file: 'src/local/access.ts',
    text: '(?::\\d{1,5})?$/i;\n\nconst strip',
    instead: '(?::\\d{1,5})?/i;\n\nconst strip',
  },
  {
    name: 'a duration above the maximum is sent',
    file: 'src/cli/duration.ts',
    text: 'if (ms < minMs || ms > maxMs)',
    instead: 'if (ms < minMs)',
  },
  {
    name: 'a script is told that a lost session was a refusal',
    file: 'src/cli/exit-codes.ts',
    text: "'session-lost': 'lost'",
    instead: "'session-lost': 'refused'",
  },
  {
    name: 'the table can not be put back to an earlier moment',
    file: 'infra/table.ts',
    text: 'pointInTimeRecoveryEnabled: true',
    instead: 'pointInTimeRecoveryEnabled: false',
  },
  {
    name: 'one failed record fails the whole batch',
    file: 'infra/notifications.ts',
    text: 'reportBatchItemFailures: true',
    instead: 'reportBatchItemFailures: false',
  },
  {
    name: 'a new notifier skips what happened before it',
    file: 'infra/notifications.ts',
    text: 'StartingPosition.TRIM_HORIZON',
    instead: 'StartingPosition.LATEST',
  },
];
