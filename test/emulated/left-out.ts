/** What the emulator does not know, and what its run does not prove. The command prints it, and docs/deploy.md has the same list. */
export const leftOut: readonly string[] = [
  'Alarms and the dashboard (`monitoring: false`): the emulator does not know alarms on metric math.',
  '`AWS::ApiGatewayV2::RouteResponse` of the WebSocket API: the emulator answers without it.',
  'The addresses of WebSocket connections and of messages to them: AWS makes them from its own domain, so they are replaced by those of the emulator.',
  'Text frames: the emulator sends messages to WebSocket connections as binary ones, AWS as text.',
  '`DurableConfig` of a durable function: the emulator does not take it from a template, so it is set by a request afterwards.',
  'The deletion of the stack by its ARN, as `cdk destroy` asks for it: the emulator finds a stack by its name only.',
  "IAM: the emulator lets every request pass. The functions' policies are tested in test/infra and test/e2e/bundles.test.ts.",
  "DynamoDB's limits, throttling and timing. The stores are tested on two other engines in test/contract.",
];
