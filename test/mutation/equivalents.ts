/** Mutants that no test can notice, because they make no difference. */
export interface Equivalent {
  readonly file: string;
  /** What the tool replaces, and by what. */
  readonly text: string;
  readonly instead: string;
  readonly why: string;
}

export const equivalents: readonly Equivalent[] = [
  {
    file: 'src/multi/plan.ts',
    text: 'one.name < other.name',
    instead: 'one.name <= other.name',
    why: 'No name occurs twice: the contract refuses such a request.',
  },
  {
    file: 'src/lock/validity.ts',
    text: 'sessionId === undefined',
    instead: 'false',
    why: 'A map of sessions has no entry for undefined.',
  },
  {
    file: 'src/lock/validity.ts',
    text: 'head !== undefined',
    instead: 'true',
    why: 'If the front is empty and there is room, the branch before this one is taken.',
  },
  {
    file: 'src/lock/decide.ts',
    text: 'own.expiresAt === null',
    instead: 'false',
    why: 'In the comparison that follows, null counts as zero, which is before every instant.',
  },
  {
    file: 'src/lock/pages.ts',
    text: 'page !== undefined',
    instead: 'true',
    why: 'No comparison with undefined is true.',
  },
  {
    file: 'src/lock/state.ts',
    text: 'known !== undefined',
    instead: 'false',
    why: 'The weight is computed again, and is the same. Keeping it only saves time.',
  },
  {
    file: 'src/lock/state.ts',
    text: 'weighed.set(claim, weight);',
    instead: ';',
    why: 'The weight is computed again, and is the same. Keeping it only saves time.',
  },
  {
    file: 'src/session/deadlock.ts',
    text: 'state.holders.filter(isBound)',
    instead: 'state.holders',
    why: "Only sessions are stuck, so a holder without a session is in nobody's way.",
  },
  {
    file: 'src/session/deadlock.ts',
    text: 'waiter.sessionId !== undefined',
    instead: 'true',
    why: 'The set of stuck sessions has no entry for undefined.',
  },
  {
    file: 'src/session/deadlock.ts',
    text: '[start]',
    instead: '[]',
    why: 'A path that comes back to its start ends there, before the seen ones are looked at.',
  },
  {
    file: 'src/session/deadlock.ts',
    text: 'wait.leaseId > young.leaseId',
    instead: 'wait.leaseId >= young.leaseId',
    why: 'No two waits of a cycle have the same lease.',
  },
  {
    file: 'src/store/dynamodb/lock-item.ts',
    text: '[]',
    instead: '["Stryker was here"]',
    why: 'If a lease ends with a session, the item has no TTL, so nobody asks for its ends.',
  },
  {
    file: 'src/store/dynamodb/failures.ts',
    text: '[]',
    instead: '["Stryker was here"]',
    why: 'A reason without a code says nothing.',
  },
  {
    file: 'src/store/dynamodb/failures.ts',
    text: "''",
    instead: '"Stryker was here!"',
    why: 'Neither of the two texts is about a size.',
  },
  {
    file: 'src/store/dynamodb/lock-writes.ts',
    text: 'leaseMs === undefined',
    instead: 'false',
    why: 'The expression does not use this value, so it is not sent.',
  },
  {
    file: 'src/store/dynamodb/lock-writes.ts',
    text: '[]',
    instead: '["Stryker was here"]',
    why: 'If a lease ends with a session, the item has no TTL, so nobody asks for its ends.',
  },
  {
    file: 'src/store/dynamodb/item-table.ts',
    text: "''",
    instead: '"Stryker was here!"',
    why: 'All requests of this batch are puts.',
  },
  {
    file: 'src/store/dynamodb/item-table.ts',
    text: "error.CancellationReasons?.find(({ Code }) => Code === 'ConditionalCheckFailed')?.Item",
    instead: "error.CancellationReasons?.find(({ Code }) => Code === 'ConditionalCheckFailed').Item",
    why: 'A transaction counts as refused only if such a reason is there.',
  },
  {
    file: 'src/store/dynamodb/item-table.ts',
    text: 'error.CancellationReasons?.find',
    instead: 'error.CancellationReasons.find',
    why: 'A transaction counts as refused only if there are reasons.',
  },
  {
    file: 'src/store/dynamodb/record-items.ts',
    text: '[]',
    instead: '["Stryker was here"]',
    why: 'Only the end of this state is used.',
  },
  {
    file: 'src/store/dynamodb/record-items.ts',
    text: "kind === 'put'",
    instead: 'true',
    why: 'A deletion has no value that could be sent.',
  },
  {
    file: 'src/store/dynamodb/record-items.ts',
    text: "expects.kind === 'version'",
    instead: 'true',
    why: 'No other expectation has a version.',
  },
  {
    file: 'src/record/decide.ts',
    text: "command.kind === 'put'",
    instead: 'true',
    why: 'A deletion has no `expiresInMs`.',
  },
  {
    file: 'src/record/decide.ts',
    text: '[]',
    instead: '["Stryker was here"]',
    why: 'The write ids of this state are not compared.',
  },
  {
    file: 'src/record/json-text.ts',
    text: "depth += found[0] === '{' || found[0] === '[' ? 1 : -1",
    instead: "depth -= found[0] === '{' || found[0] === '[' ? 1 : -1",
    why: 'The value ends where the depth is zero again, from above or from below.',
  },
  {
    file: 'src/service/apply.ts',
    text: "'release'",
    instead: '""',
    why: 'The turns of releases need any word except that of the turns of joins.',
  },
  {
    file: 'src/service/apply.ts',
    text: "command.kind === 'acquire'",
    instead: 'true',
    why: 'No other command joins the queue.',
  },
  {
    file: 'src/service/apply.ts',
    text: 'waiter === undefined || position === undefined',
    instead: 'waiter === undefined && position === undefined',
    why: 'A position is known exactly if the waiter is in the queue.',
  },
  {
    file: 'src/service/apply.ts',
    text: 'waiter === undefined',
    instead: 'false',
    why: 'A position is known exactly if the waiter is in the queue.',
  },
  {
    file: 'src/service/apply.ts',
    text: 'position === undefined',
    instead: 'false',
    why: 'A position is known exactly if the waiter is in the queue.',
  },
  {
    file: 'src/service/apply.ts',
    text: "answer.kind === 'lost'",
    instead: 'true',
    why: 'No other answer has the reason not_owner.',
  },
  {
    file: 'src/service/apply.ts',
    text: "answer.kind === 'released'",
    instead: 'true',
    why: 'No other answer has the reason already_released.',
  },
  {
    file: 'src/service/pages.ts',
    text: "'join'",
    instead: '""',
    why: 'The turns of joins need any word except that of the turns of releases.',
  },
  {
    file: 'src/service/pages.ts',
    text: 'waiter !== undefined',
    instead: 'true',
    why: 'A page that took the attendance of a waiter has the waiter.',
  },
  {
    file: 'src/service/pages.ts',
    text: 'first === undefined',
    instead: 'false',
    why: 'A lock without pages has no page of this number.',
  },
  {
    file: 'src/client/held.ts',
    text: '{ once: true }',
    instead: '{}',
    why: 'A signal fires only once.',
  },
  {
    file: 'src/notify/change-events.ts',
    text: 'changed.filter(isShown)',
    instead: 'changed',
    why: 'No waiter in a page renews, and only renewals are not shown.',
  },
  {
    file: 'src/notify/change-events.ts',
    text: 'parked.length === 0',
    instead: 'false',
    why: 'It only saves time: without parked waiters, no wait of one has ended.',
  },
  {
    file: 'src/contract/locks.ts',
    text: "'custom'",
    instead: '""',
    why: 'Only the code of unknown fields is looked at.',
  },
  {
    file: 'src/contract/locks.ts',
    text: 'value.permits !== undefined',
    instead: 'true',
    why: 'No comparison with undefined is true.',
  },
  {
    file: 'src/contract/records.ts',
    text: "'custom'",
    instead: '""',
    why: 'Only the code of unknown fields is looked at.',
  },
  {
    file: 'src/contract/records.ts',
    text: "'*'",
    instead: '""',
    why: 'An answer shows the value that came, and not the one in the issue.',
  },
  {
    file: 'src/contract/records.ts',
    text: '/^"(0|[1-9]\\d{0,15})"$/',
    instead: '/"(0|[1-9]\\d{0,15})"$/',
    why: 'With something before the first quotation mark, the text between the ends is no number.',
  },
  {
    file: 'src/contract/records.ts',
    text: '/^"(0|[1-9]\\d{0,15})"$/',
    instead: '/^"(0|[1-9]\\d{0,15})"/',
    why: 'With something after the last quotation mark, the text between the ends is no number.',
  },
  {
    file: 'src/contract/records.ts',
    text: "''",
    instead: '"Stryker was here!"',
    why: 'The group of a tag always takes part in a match.',
  },
  {
    file: 'src/store/dynamodb/session-store.ts',
    text: 'key?.namespace',
    instead: 'key.namespace',
    why: 'Each item of the index has the partition of a lock.',
  },
  {
    file: 'src/store/dynamodb/session-store.ts',
    text: 'key?.name',
    instead: 'key.name',
    why: 'Each item of the index has the partition of a lock.',
  },
  {
    file: 'src/store/dynamodb/session-store.ts',
    text: "''",
    instead: '"Stryker was here!"',
    why: 'Each item of the index has the partition of a lock.',
  },
  {
    file: 'src/guards/sql.ts',
    text: 'shared === undefined',
    instead: 'false',
    why: 'The map has no entry for undefined.',
  },
  {
    file: 'src/guards/sql.ts',
    text: 'shared !== undefined',
    instead: 'true',
    why: 'An entry for undefined is never read.',
  },
  {
    file: 'src/guards/redis.ts',
    text: '[]',
    instead: '["Stryker was here"]',
    why: 'Number of this text is neither 0 nor 1, so the reply is refused as well.',
  },
  {
    file: 'src/http/api-gateway.ts',
    text: 'body === undefined',
    instead: 'false',
    why: 'JSON leaves out what is undefined.',
  },
  {
    file: 'src/http/api-gateway.ts',
    text: "!encoded.includes('%')",
    instead: 'false',
    why: 'It only saves time: without a percent sign, decoding changes nothing.',
  },
  {
    file: 'src/http/api-gateway.ts',
    text: "'%'",
    instead: '""',
    why: 'It only saves time: without a percent sign, decoding changes nothing.',
  },
  {
    file: 'src/http/api-gateway.ts',
    text: '/[\\s,[\\]"]+/',
    instead: '/[\\s,[\\]"]/',
    why: 'Empty entries are left out.',
  },
  {
    file: 'infra/http-api.ts',
    text: "'$default'",
    instead: '""',
    why: 'The default stage is called so as well.',
  },
  {
    file: 'infra/table-access.ts',
    text: 'conditions === undefined',
    instead: 'false',
    why: 'The CDK leaves out conditions that are undefined.',
  },
  {
    file: 'src/guards/dynamodb.ts',
    text: "typeof error !== 'object'",
    instead: 'false',
    why: 'Nothing but an object has one of these names.',
  },
  {
    file: 'src/guards/dynamodb.ts',
    text: "name !== 'TransactionCanceledException'",
    instead: 'false',
    why: 'No other error has such reasons.',
  },
  {
    file: 'src/guards/dynamodb.ts',
    text: 'at < trimmed.length',
    instead: 'at <= trimmed.length',
    why: 'After the last character nothing is counted or returned.',
  },
  {
    file: 'src/guards/fence.ts',
    text: "typeof fence === 'number'",
    instead: 'true',
    why: 'Only a number is a safe integer.',
  },
  {
    file: 'src/guards/fence.ts',
    text: "''",
    instead: '"Stryker was here!"',
    why: 'Neither text is of digits.',
  },
  {
    file: 'src/guards/s3.ts',
    text: "typeof b === 'string'",
    instead: 'false',
    why: 'A byte never equals a character.',
  },
];

export const isEquivalent = (mutant: Omit<Equivalent, 'why'>): boolean =>
  equivalents.some(
    ({ file, text, instead }) => file === mutant.file && text === mutant.text && instead === mutant.instead,
  );
