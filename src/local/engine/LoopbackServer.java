import org.eclipse.jetty.server.ServerConnector;
import software.amazon.dynamodb.services.local.main.CommandLineInput;
import software.amazon.dynamodb.services.local.main.ServerRunner;
import software.amazon.dynamodb.services.local.server.DynamoDBProxyServer;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBRequestHandler;
import software.amazon.dynamodb.services.local.server.LocalDynamoDBServerHandler;

/**
 * DynamoDB Local on 127.0.0.1. Its own main class listens on every interface and has no option against it, which
 * would show every lease to the network. It takes the same flags; java runs this file from source.
 */
class LoopbackServer {
  public static void main(String[] args) throws Exception {
    var flags = new CommandLineInput(args);
    if (!flags.init()) System.exit(2);
    // Loading their main class quiets the loggers of Jetty and SQLite.
    Class.forName(ServerRunner.class.getName());

    var requests = new LocalDynamoDBRequestHandler(
        0, flags.isInMemory(), flags.getDbPath(), flags.getSharedDb(), flags.shouldDelayTransientStatuses());
    // No CORS parameters, so no page of a browser may read the engine.
    var handler = new LocalDynamoDBServerHandler(requests, null);
    var engine = new DynamoDBProxyServer(flags.getPort(), handler);
    ((ServerConnector) handler.getServer().getConnectors()[0]).setHost("127.0.0.1");
    engine.start();
  }
}
