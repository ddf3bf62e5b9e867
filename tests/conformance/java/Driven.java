import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/**
 * Does with Apache Kafka's own client what a test says, one JSON object a line on stdin, and tells the outcome.
 *
 * <pre>
 * {"n": 1, "do": "produce", "client": "c", "servers": "HOST:PORT", "topic": "t", "partition": 0, "value": "v"}
 * {"n": 1, "offset": 0}
 * </pre>
 *
 * A client is made at the first command that names it, with the keys that the command has. Its commands run in order,
 * those of two clients side by side. The program ends with its input.
 */
public class Driven {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Longer than a client of a test is ever stuck. */
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final ExecutorService todo = Executors.newSingleThreadExecutor();
    private KafkaProducer<String, String> producer;
    private KafkaConsumer<String, String> consumer;

    public static void main(String[] args) throws IOException {
        Map<String, Driven> clients = new HashMap<>();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            JsonNode command = JSON.readTree(line);
            Driven driven = clients.computeIfAbsent(command.get("client").asText(), its -> new Driven());
            driven.todo.submit(() -> say(driven.outcome(command).put("n", command.get("n").asInt())));
        }
        System.exit(0);
    }

    private static synchronized void say(ObjectNode outcome) {
        System.out.println(outcome);
        System.out.flush();
    }

    private ObjectNode outcome(JsonNode command) {
        try {
            return run(command);
        } catch (ExecutionException error) {
            return JSON.createObjectNode().put("error", String.valueOf(error.getCause()));
        } catch (Throwable error) {
            return JSON.createObjectNode().put("error", String.valueOf(error));
        }
    }

    private ObjectNode run(JsonNode command) throws Exception {
        ObjectNode done = JSON.createObjectNode();
        switch (command.get("do").asText()) {
            case "produce" -> {
                if (producer == null) {
                    producer = new KafkaProducer<>(keys(command), new StringSerializer(), new StringSerializer());
                }
                var record = new ProducerRecord<String, String>(
                    command.get("topic").asText(), command.get("partition").asInt(), null,
                    command.get("value").asText());
                done.put("offset", producer.send(record).get(PATIENCE.toSeconds(), TimeUnit.SECONDS).offset());
            }
            case "read", "join" -> {
                open(command);
                var values = done.putArray("values");
                long ends = System.nanoTime() + PATIENCE.toNanos();
                while (values.size() < command.get("count").asInt()) {
                    for (var record : consumer.poll(Duration.ofMillis(100))) {
                        values.add(record.value());
                    }
                    if (System.nanoTime() > ends) {
                        throw new TimeoutException(values.size() + " records after " + PATIENCE);
                    }
                }
            }
            case "commit" -> consumer.commitSync(
                Map.of(partition(command), new OffsetAndMetadata(command.get("offset").asLong())), PATIENCE);
            case "close" -> {
                if (producer != null) {
                    producer.close(Duration.ofSeconds(1));
                }
                if (consumer != null) {
                    consumer.close(CloseOptions.timeout(Duration.ofSeconds(1)));
                }
            }
            default -> throw new IllegalArgumentException("there is no command " + command.get("do"));
        }
        return done;
    }

    private void open(JsonNode command) {
        if (consumer != null) {
            return;
        }
        Map<String, Object> keys = keys(command);
        keys.putIfAbsent("auto.offset.reset", "earliest");
        keys.put("enable.auto.commit", false);
        boolean joins = command.get("do").asText().equals("join");
        if (joins) {
            keys.put("group.id", command.get("group").asText());
        }
        consumer = new KafkaConsumer<>(keys, new StringDeserializer(), new StringDeserializer());
        if (joins) {
            consumer.subscribe(List.of(command.get("topic").asText()));
        } else {
            consumer.assign(List.of(partition(command)));
        }
    }

    private static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    private static Map<String, Object> keys(JsonNode command) {
        Map<String, Object> keys = new HashMap<>();
        keys.put("bootstrap.servers", command.get("servers").asText());
        keys.put("client.id", command.get("client").asText());
        if (command.has("rack")) {
            keys.put("client.rack", command.get("rack").asText());
        }
        command.path("keys").fields().forEachRemaining(key -> keys.put(key.getKey(), key.getValue().asText()));
        return keys;
    }
}
