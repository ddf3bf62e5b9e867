import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

/**
 * Reads and writes records with Apache Kafka's own client, one JSON object a line, bytes in base64.
 *
 * <pre>
 * Records.java read HOST:PORT TOPIC...   every record below the end offsets found at start
 * Records.java write HOST:PORT           those of stdin, each with its topic and codec
 * </pre>
 *
 * A writer leaves partitions to the client's default.
 */
public class Records {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "read" -> read(args[1], List.of(args).subList(2, args.length));
            case "write" -> write(args[1]);
            default -> throw new IllegalArgumentException("neither read nor write: " + args[0]);
        }
    }

    private static void read(String bootstrap, List<String> topics) throws IOException {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", false);
        try (var out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)), false, UTF_8);
                var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = topics.stream()
                .flatMap(topic -> consumer.partitionsFor(topic).stream())
                .map(info -> new TopicPartition(info.topic(), info.partition()))
                .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    out.println(JSON.writeValueAsString(row(record)));
                }
            }
        }
    }

    private static ObjectNode row(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode row = JSON.createObjectNode()
            .put("topic", record.topic())
            .put("partition", record.partition())
            .put("offset", record.offset())
            .put("timestamp", record.timestamp())
            .put("key", record.key())
            .put("value", record.value());
        var headers = row.putArray("headers");
        for (Header header : record.headers()) {
            headers.addObject().put("name", header.key()).put("value", header.value());
        }
        return row;
    }

    private static void write(String bootstrap) throws Exception {
        Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var lines = new BufferedReader(new InputStreamReader(System.in, UTF_8))) {
            for (String line; (line = lines.readLine()) != null; ) {
                JsonNode row = JSON.readTree(line);
                var record = new ProducerRecord<>(row.get("topic").asText(), null, row.get("timestamp").asLong(),
                    bytes(row.get("key")), bytes(row.get("value")));
                for (JsonNode header : row.get("headers")) {
                    record.headers().add(header.get("name").asText(), bytes(header.get("value")));
                }
                String codec = row.get("codec").asText();
                sent.add(producers.computeIfAbsent(codec, its -> producer(bootstrap, its)).send(record));
            }
        }
        producers.values().forEach(KafkaProducer::close);
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String codec) {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "compression.type", codec, "linger.ms", 20);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static byte[] bytes(JsonNode node) throws IOException {
        return node.isNull() ? null : node.binaryValue();
    }
}
