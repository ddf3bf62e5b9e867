// A producer of Java's client that survives NOT_LEADER_OR_FOLLOWER on the third produce.
//
// Copy it into the tests of a project with org.apache.kafka:kafka-clients and JUnit 5. It starts
// `kafkalite dev`, adds a fault over HTTP, and ends the broker.

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class FaultsTest {
    private final HttpClient http = HttpClient.newHttpClient();
    private Process broker;
    private String ready;
    private String admin;

    @BeforeEach
    void start() throws IOException {
        broker = new ProcessBuilder("kafkalite", "dev", "--quiet", "--listen", "127.0.0.1:0")
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
        BufferedReader lines = broker.inputReader();
        while (ready == null || admin == null) {
            String line = lines.readLine();
            assertTrue(line != null, "the broker ended");
            if (line.startsWith("ready: ")) ready = line.substring("ready: ".length());
            if (line.startsWith("admin: ")) admin = line.substring("admin: ".length());
        }
    }

    @AfterEach
    void stop() throws InterruptedException {
        broker.destroy();
        broker.waitFor();
    }

    private String send(HttpRequest.Builder request) throws Exception {
        var answer = http.send(request.build(), BodyHandlers.ofString());
        assertEquals(2, answer.statusCode() / 100, answer.body());
        return answer.body();
    }

    private HttpRequest.Builder faults() {
        return HttpRequest.newBuilder(URI.create(admin + "/api/v1/faults"));
    }

    @Test
    void theProducerSurvivesALeaderThatMoves() throws Exception {
        String fault = """
            {"kind": "error", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "on_call": 3}
            """;
        send(faults().POST(BodyPublishers.ofString(fault)));
        Map<String, Object> config = Map.of("bootstrap.servers", ready);
        var serializer = new StringSerializer();
        try (var producer = new KafkaProducer<>(config, serializer, serializer)) {
            for (String value : new String[] {"1", "2", "3"}) {
                var record = new ProducerRecord<String, String>("orders", value);
                producer.send(record).get(30, TimeUnit.SECONDS);
            }
        }
        String told = send(faults().GET());
        assertTrue(told.contains("\"fired\":1"), told);
    }
}
