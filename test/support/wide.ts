/**
 * True in the wide pass of `.ci/run`. There suites use other tools too: `npm start` with DynamoDB Local, the package on
 * an older Node, the program in Go. They also run more random cases. `npm test` leaves that out. It would take twice as
 * long, and what it tests of Holdfast itself is the same.
 */
export const wide = process.env.HOLDFAST_TEST_WIDE !== undefined;
