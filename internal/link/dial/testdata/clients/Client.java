import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** A client in three manners: HttpClient, a blocking socket, a channel with a selector. Prints one JSON object. */
public class Client {
    static final byte[] REQUEST = "GET / HTTP/1.0\r\n\r\n".getBytes(StandardCharsets.US_ASCII);
    static long began;
    static long connected = -1;
    static String peer = "";

    static long since() {
        return (System.nanoTime() - began) / 1_000_000;
    }

    static void connected(SocketAddress to) {
        connected = since();
        InetSocketAddress at = (InetSocketAddress) to;
        peer = at.getAddress().getHostAddress() + ":" + at.getPort();
    }

    static void withHttpClient(String host, int port, int limit) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + host + ":" + port + "/"))
                .timeout(Duration.ofMillis(limit)).build();
        began = System.nanoTime();
        client.send(request, HttpResponse.BodyHandlers.ofByteArray());
    }

    static void withSocket(String host, int port, int limit) throws Exception {
        try (Socket s = new Socket()) {
            s.setTcpNoDelay(true);
            InetSocketAddress to = new InetSocketAddress(host, port);
            began = System.nanoTime();
            s.connect(to, limit);
            connected(s.getRemoteSocketAddress());
            s.setSoTimeout(limit);
            s.getOutputStream().write(REQUEST);
            InputStream in = s.getInputStream();
            byte[] b = new byte[4096];
            while (in.read(b) >= 0) {
            }
        }
    }

    static void withSelector(String host, int port, int limit) throws Exception {
        try (Selector selector = Selector.open(); SocketChannel ch = SocketChannel.open()) {
            ch.configureBlocking(false);
            SelectionKey key = ch.register(selector, 0);
            InetSocketAddress to = new InetSocketAddress(host, port);
            selector.selectNow();
            began = System.nanoTime();
            if (!ch.connect(to)) {
                key.interestOps(SelectionKey.OP_CONNECT);
                await(selector, limit);
                ch.finishConnect();
            }
            connected(ch.getRemoteAddress());
            ch.write(ByteBuffer.wrap(REQUEST));
            key.interestOps(SelectionKey.OP_READ);
            ByteBuffer in = ByteBuffer.allocate(4096);
            do {
                in.clear();
                await(selector, limit);
            } while (ch.read(in) >= 0);
        }
    }

    static void await(Selector selector, int limit) throws IOException {
        if (selector.select(Math.max(1, limit - since())) == 0) {
            throw new SocketTimeoutException("timed out");
        }
        selector.selectedKeys().clear();
    }

    static String name(Throwable e) {
        StringBuilder all = new StringBuilder();
        for (; e != null; e = e.getCause()) {
            if (e instanceof SocketTimeoutException || e instanceof HttpTimeoutException) {
                return "timeout";
            }
            all.append(e).append("; ");
        }
        String text = all.toString();
        if (text.contains("Connection refused")) {
            return "ECONNREFUSED";
        } else if (text.contains("Connection timed out")) {
            return "ETIMEDOUT";
        } else if (text.contains("Connection reset")) {
            return "ECONNRESET";
        }
        if (text.equals("java.net.ConnectException; java.net.ConnectException; java.nio.channels.ClosedChannelException; ")) {
            return "connect"; // all that HttpClient tells of a connection that was not made
        }
        return text.replace('"', '\'').replace('\n', ' ');
    }

    public static void main(String[] args) {
        String error = "";
        int port = Integer.parseInt(args[2]);
        int limit = (int) (Double.parseDouble(args[3]) * 1000);
        began = System.nanoTime();
        try {
            switch (args[0]) {
                case "http" -> withHttpClient(args[1], port, limit);
                case "socket" -> withSocket(args[1], port, limit);
                default -> withSelector(args[1], port, limit);
            }
        } catch (Exception e) {
            error = name(e);
        }
        System.out.printf("{\"error\": \"%s\", \"connect_ms\": %d, \"total_ms\": %d, \"gap_ms\": 0, \"peer\": \"%s\"}%n",
                error, connected, since(), peer);
        System.exit(0);
    }
}
