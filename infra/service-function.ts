import { type Duration, RemovalPolicy } from 'aws-cdk-lib';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  ApplicationLogLevel,
  Architecture,
  type Code,
  Function as LambdaFunction,
  LoggingFormat,
  type RecursiveLoop,
  Runtime,
  SystemLogLevel,
} from 'aws-cdk-lib/aws-lambda';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';

export interface ServiceFunctionProps {
  readonly code: Code;
  readonly description: string;
  readonly timeout: Duration;
  readonly memorySizeMb: number;
  readonly environment: Readonly<Record<string, string>>;
  readonly logRetention: RetentionDays;
  /** If missing, Lambda stops what looks like an endless loop between functions and queues. */
  readonly recursiveLoop?: RecursiveLoop;
  /** If missing, the function shares the account's concurrency. */
  readonly reservedConcurrency?: number | undefined;
}

/** A function with its own role and its own log group, so that functions share no permission. */
export class ServiceFunction extends Construct {
  readonly function: LambdaFunction;
  readonly role: Role;
  readonly logGroup: LogGroup;
  readonly memorySizeMb: number;

  constructor(scope: Construct, id: string, props: ServiceFunctionProps) {
    super(scope, id);
    this.memorySizeMb = props.memorySizeMb;
    this.logGroup = new LogGroup(this, 'Logs', {
      retention: props.logRetention,
      // Logs describe a running service. After its stack was deleted on purpose, they would only block a new stack with
      // the same name.
      removalPolicy: RemovalPolicy.DESTROY,
    });
    this.role = new Role(this, 'Role', {
      assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
      description: `Permissions of a Holdfast function: ${props.description}`,
    });
    this.logGroup.grantWrite(this.role);
    this.function = new LambdaFunction(this, 'Function', {
      description: props.description,
      code: props.code,
      handler: 'index.handler',
      runtime: Runtime.NODEJS_24_X,
      // ARM does the same work for a fifth less money.
      architecture: Architecture.ARM_64,
      timeout: props.timeout,
      memorySize: props.memorySizeMb,
      role: this.role,
      logGroup: this.logGroup,
      loggingFormat: LoggingFormat.JSON,
      applicationLogLevelV2: ApplicationLogLevel.INFO,
      // Lambda's own start and report lines are as long as ours, and repeat what metrics show.
      systemLogLevelV2: SystemLogLevel.WARN,
      environment: {
        POWERTOOLS_SERVICE_NAME: `holdfast-${id.toLowerCase()}`,
        POWERTOOLS_LOG_LEVEL: 'INFO',
        ...props.environment,
      },
      ...(props.recursiveLoop === undefined ? {} : { recursiveLoop: props.recursiveLoop }),
      ...(props.reservedConcurrency === undefined ? {} : { reservedConcurrentExecutions: props.reservedConcurrency }),
    });
  }

  allow(actions: readonly string[], resources: readonly string[]): void {
    this.role.addToPrincipalPolicy(new PolicyStatement({ actions: [...actions], resources: [...resources] }));
  }
}
