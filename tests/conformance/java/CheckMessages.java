import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.*;

/**
 * Lets the classes of Apache Kafka's own client library read messages and write them again.
 *
 * <p>Input, one message a line: {@code <name> <key> <version> <request|response|record> <hex>}. A line passes if Kafka
 * reads it to its last byte and writes the very same bytes. Run:
 * {@code java -cp "<kafka>/libs/*" CheckMessages.java <file>}; the exit code is 1 if a line fails.
 */
public class CheckMessages {
    public static void main(String[] args) throws Exception {
        int passed = 0;
        Map<String, String> failures = new TreeMap<>();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            if (line.isBlank() || line.startsWith("#")) continue;
            String[] words = line.split(" ", -1);
            short key = Short.parseShort(words[1]);
            short version = Short.parseShort(words[2]);
            byte[] bytes = HexFormat.of().parseHex(words[4]);
            String label = words[0] + " v" + version + " " + words[3];
            try {
                Message message = words[3].equals("record") ? record(words[0])
                    : words[3].equals("request") ? ApiMessageType.fromApiKey(key).newRequest()
                    : ApiMessageType.fromApiKey(key).newResponse();
                ByteBuffer in = ByteBuffer.wrap(bytes);
                message.read(new ByteBufferAccessor(in), version);
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
                message.write(new ByteBufferAccessor(out), cache, version);
                if (in.hasRemaining()) {
                    failures.putIfAbsent(label, in.remaining() + " bytes left over: " + message);
                } else if (!Arrays.equals(bytes, out.array())) {
                    failures.putIfAbsent(label, "\n  ours   " + words[4]
                        + "\n  kafka  " + HexFormat.of().formatHex(out.array()) + "\n  " + message);
                } else {
                    passed++;
                }
            } catch (Exception error) {
                failures.putIfAbsent(label, error.toString());
            }
        }
        failures.forEach((label, why) -> System.out.println(label + ": " + why));
        System.out.println(passed + " messages passed, " + failures.size() + " kinds of message failed");
        System.exit(failures.isEmpty() ? 0 : 1);
    }

    private static Message record(String name) throws Exception {
        String where = name.startsWith("ConsumerProtocol")
            ? "org.apache.kafka.common.message." : "org.apache.kafka.coordinator.group.generated.";
        return (Message) Class.forName(where + name).getConstructor().newInstance();
    }
}
