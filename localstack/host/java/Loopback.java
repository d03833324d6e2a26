import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import com.amazonaws.services.dynamodbv2.local.server.DynamoDBProxyServer;
import java.lang.reflect.Field;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * DynamoDB Local, which has no option for either: it listens on 127.0.0.1 alone, and it ends when its standard input
 * does, so that whoever started it cannot leave it behind, however he ends.
 */
public final class Loopback {
    public static void main(String[] args) throws Exception {
        Thread life = new Thread(Loopback::watch, "life");
        life.setDaemon(true);
        life.start();
        DynamoDBProxyServer proxy = ServerRunner.createServerFromCommandLineArgs(args);
        Field field = DynamoDBProxyServer.class.getDeclaredField("server");
        field.setAccessible(true);
        for (Connector connector : ((Server) field.get(proxy)).getConnectors()) {
            ((ServerConnector) connector).setHost("127.0.0.1");
        }
        proxy.start();
        proxy.join();
    }

    private static void watch() {
        try {
            while (System.in.read() >= 0) {
                // Nobody says anything: only the end counts.
            }
        } catch (java.io.IOException e) {
            // As good as the end.
        }
        Runtime.getRuntime().halt(0);
    }
}
