package rivermouth.avro;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/**
 * Gets the content of an address, within a time and a size. What may pass is tried again; no redirect is followed.
 *
 * <p>By {@code HttpURLConnection}: the newer {@code HttpClient} of the JDK takes no host with an underscore in its name,
 * as services in a Compose file have.
 */
final class Http {
    private static final long FIRST_PAUSE_MS = 100;
    private static final long LONGEST_PAUSE_MS = 2_000;
    private static final long NANOS = 1_000_000;
    private static final int PIECE = 8_192;
    private static final ExecutorService ASKING = Executors.newCachedThreadPool(Http::thread);

    private final String authorization;
    private final String authorities;
    private final long timeoutMs;
    private final int maxBytes;

    Http(String authorization, String authorities, long timeoutMs, int maxBytes) {
        this.authorization = authorization;
        this.authorities = authorities;
        this.timeoutMs = timeoutMs;
        this.maxBytes = maxBytes;
    }

    /** An answer: that there is something, or that there is not. */
    static final class Answer {
        final int status;
        final byte[] body;

        Answer(int status, byte[] body) {
            this.status = status;
            this.body = body;
        }
    }

    /**
     * The answer with status 200 or 404.
     *
     * @throws RegistryFailure there is none of these in time
     */
    Answer get(URI address) {
        long deadline = System.nanoTime() + timeoutMs * NANOS;
        long pause = FIRST_PAUSE_MS;
        while (true) {
            String failure;
            try {
                Answer answer = once(address, deadline);
                if (answer.status == HttpURLConnection.HTTP_OK || answer.status == HttpURLConnection.HTTP_NOT_FOUND) {
                    return answer;
                }
                failure = "it answers with status " + answer.status;
            } catch (SSLException error) {
                throw new RegistryFailure("its certificate or its TLS is not accepted");
            } catch (IOException error) {
                failure = "it does not answer (" + error.getClass().getSimpleName() + ")";
            }
            long left = (deadline - System.nanoTime()) / NANOS;
            if (left <= pause) {
                throw new RegistryFailure(failure + ", for " + timeoutMs / 1000.0 + " s");
            }
            sleep(pause);
            pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
        }
    }

    /** One answer, by the deadline whatever comes: the timeouts of a connection start again with each byte. */
    private Answer once(URI address, long deadline) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) address.toURL().openConnection();
        Future<Answer> answer = ASKING.submit(() -> answer(connection, deadline));
        try {
            return answer.get(Math.max(1, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            // To close it may wait for who reads it.
            ASKING.execute(connection::disconnect);
            throw new SocketTimeoutException();
        } catch (InterruptedException stopped) {
            ASKING.execute(connection::disconnect);
            throw RegistryFailure.stopped();
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            if (cause instanceof IOException) {
                throw (IOException) cause;
            }
            throw cause instanceof RegistryFailure ? (RegistryFailure) cause : RegistryFailure.unasked(cause);
        }
    }

    private Answer answer(HttpURLConnection connection, long deadline) throws IOException {
        if (connection instanceof HttpsURLConnection && !authorities.isEmpty()) {
            ((HttpsURLConnection) connection).setSSLSocketFactory(trusting());
        }
        int left = (int) Math.min(Math.max(1, (deadline - System.nanoTime()) / NANOS), Integer.MAX_VALUE);
        connection.setInstanceFollowRedirects(false);
        connection.setConnectTimeout(left);
        connection.setReadTimeout(left);
        connection.setRequestProperty("Accept", "application/vnd.schemaregistry.v1+json, application/json");
        if (!authorization.isEmpty()) {
            connection.setRequestProperty("Authorization", authorization);
        }
        int status = connection.getResponseCode();
        refuse(status);
        boolean good = status == HttpURLConnection.HTTP_OK;
        try (InputStream body = good ? connection.getInputStream() : connection.getErrorStream()) {
            return new Answer(status, body == null ? new byte[0] : limited(body, deadline));
        }
    }

    /** What no repetition mends. */
    private static void refuse(int status) {
        if (status == HttpURLConnection.HTTP_UNAUTHORIZED || status == HttpURLConnection.HTTP_FORBIDDEN) {
            throw new RegistryFailure("it refuses the login with status " + status);
        }
        if (status / 100 == 3) {
            throw new RegistryFailure("it sends elsewhere with status " + status + ", and no redirect is followed");
        }
    }

    private byte[] limited(InputStream body, long deadline) throws IOException {
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        byte[] piece = new byte[PIECE];
        for (int count = body.read(piece); count >= 0; count = body.read(piece)) {
            found.write(piece, 0, count);
            if (found.size() > maxBytes) {
                throw new RegistryFailure("its answer has more than " + maxBytes + " bytes");
            }
            if (System.nanoTime() > deadline) {
                throw new IOException("too slow");
            }
        }
        return found.toByteArray();
    }

    private SSLSocketFactory trusting() {
        try {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            InputStream pem = new ByteArrayInputStream(authorities.getBytes(StandardCharsets.US_ASCII));
            int number = 0;
            for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                store.setCertificateEntry("ca" + number++, each);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context.getSocketFactory();
        } catch (GeneralSecurityException | IOException error) {
            throw new RegistryFailure("schema_registry.ca_file holds no certificates");
        }
    }

    /** It keeps no process alive. */
    private static Thread thread(Runnable question) {
        Thread thread = new Thread(question, "rivermouth-schema-registry");
        thread.setDaemon(true);
        return thread;
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException stopped) {
            throw RegistryFailure.stopped();
        }
    }
}
