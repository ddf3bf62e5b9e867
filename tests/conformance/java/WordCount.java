import java.time.Duration;
import java.util.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts words with Kafka Streams: a repartition topic, stores with compacted changelogs, a join of tables, a window.
 *
 * <p>{@code WordCount <bootstrap> <application> <state directory> <instance>} reads lines from the topic
 * {@code <application>-lines} and names of words from {@code -names}; it writes counts to {@code -counts}, counts of
 * words that have a name to {@code -named}, lines by key and minute to {@code -minutes}. On stdout it tells each change
 * of its state ({@code state RUNNING}) and each store restored ({@code restored counts 0 17}: store, partition,
 * records). It runs until its input ends.
 */
public class WordCount {
    public static void main(String[] args) throws Exception {
        String application = args[1];
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", args[0], "application.id", application, "state.dir", args[2],
            "group.instance.id", args[3], "auto.offset.reset", "earliest", "commit.interval.ms", "200",
            "statestore.cache.max.bytes", "0", "session.timeout.ms", "20000", "heartbeat.interval.ms", "500"));
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);

        KafkaStreams streams = new KafkaStreams(topology(application), settings);
        streams.setStateListener((now, before) -> say("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            say("failed " + error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setGlobalStateRestoreListener(new Restored());
        streams.start();
        while (System.in.read() >= 0) { }
        streams.close(Duration.ofSeconds(20));
    }

    static Topology topology(String application) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(application + "-lines");
        KTable<String, String> counts = lines
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .aggregate(() -> "0", (word, one, count) -> String.valueOf(Long.parseLong(count) + 1), store("counts"));
        counts.toStream().to(application + "-counts");
        KTable<String, String> names = builder.table(application + "-names", store("names"));
        counts.join(names, (count, name) -> name + "=" + count).toStream().to(application + "-named");
        lines.groupByKey()
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
            .count(Materialized.as(Stores.inMemoryWindowStore(
                "minutes", Duration.ofMinutes(1), Duration.ofMinutes(1), false)))
            .toStream((window, count) -> window.key() + "@" + window.window().start())
            .mapValues(String::valueOf)
            .to(application + "-minutes");
        return builder.build();
    }

    static <K, V> Materialized<K, V, KeyValueStore<Bytes, byte[]>> store(String name) {
        return Materialized.as(Stores.inMemoryKeyValueStore(name));
    }

    static synchronized void say(String words) {
        System.out.println(words);
        System.out.flush();
    }

    static class Restored implements StateRestoreListener {
        public void onRestoreStart(TopicPartition from, String store, long start, long end) { }

        public void onBatchRestored(TopicPartition from, String store, long end, long records) { }

        public void onRestoreEnd(TopicPartition from, String store, long records) {
            say("restored " + store + " " + from.partition() + " " + records);
        }
    }
}
