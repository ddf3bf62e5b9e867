import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

/**
 * Writes record batches with Apache Kafka's own client library, one a line, for {@code tests/golden/record_batches.txt}.
 *
 * <p>{@code <name> <hex>}; what is in them is told by {@code rust/protocol/tests/golden.rs}.
 */
public class WriteRecordBatches {
    public static void main(String[] args) {
        System.out.println("# WriteRecordBatches.java against " + org.apache.kafka.common.utils.AppInfoParser.getVersion());
        plain("none", Compression.NONE);
        plain("gzip", Compression.gzip().build());
        plain("snappy", Compression.snappy().build());
        plain("lz4", Compression.lz4().build());
        plain("zstd", Compression.zstd().build());
        for (Compression large : new Compression[] {
                Compression.gzip().build(), Compression.snappy().build(), Compression.lz4().build(), Compression.zstd().build()}) {
            large("large-" + large.type().name, large);
        }
        ByteBuffer buffer = ByteBuffer.allocate(4096);
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, RecordBatch.MAGIC_VALUE_V2, Compression.NONE,
                TimestampType.CREATE_TIME, 0, RecordBatch.NO_TIMESTAMP, 9_000_000_000L, (short) 7, Integer.MAX_VALUE - 1,
                true, false, 42, buffer.capacity())) {
            for (int i = 0; i < 3; i++) builder.append(1_700_000_000_000L + i, null, ("t" + i).getBytes());
        }
        print("transactional", buffer);
        buffer = ByteBuffer.allocate(4096);
        MemoryRecords.writeEndTransactionalMarker(buffer, 77, 1_700_000_000_000L, 3, 9_000_000_000L, (short) 7,
            new EndTransactionMarker(ControlRecordType.COMMIT, 5));
        print("commit-marker", buffer);
    }

    /** Three records with offsets 100 to 102. */
    private static void plain(String name, Compression compression) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, RecordBatch.MAGIC_VALUE_V2, compression,
                TimestampType.CREATE_TIME, 100, RecordBatch.NO_TIMESTAMP, -1L, (short) -1, -1, false, false, 5, buffer.capacity())) {
            builder.append(1_700_000_000_000L, "key".getBytes(), "value".getBytes());
            builder.append(1_700_000_000_123L, null, new byte[0],
                new Header[] {new RecordHeader("h", "v".getBytes()), new RecordHeader("null", null)});
            builder.append(1_699_999_999_000L, new byte[0], null);
            print(name, builder.build().buffer());
        }
    }

    /** 3,000 records of a 50-byte value, beyond one block of every codec. */
    private static void large(String name, Compression compression) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, RecordBatch.MAGIC_VALUE_V2, compression,
                TimestampType.LOG_APPEND_TIME, 0, 1_700_000_000_000L, -1L, (short) -1, -1, false, false, -1, buffer.capacity())) {
            for (int i = 0; i < 3_000; i++) {
                builder.append(0L, Integer.toString(i).getBytes(), "x".repeat(50).getBytes());
            }
            print(name, builder.build().buffer());
        }
    }

    private static void print(String name, ByteBuffer buffer) {
        ByteBuffer bytes = buffer.duplicate();
        if (bytes.position() > 0) bytes.flip();
        byte[] array = new byte[bytes.remaining()];
        bytes.get(array);
        System.out.println(name + " " + HexFormat.of().formatHex(array));
    }
}
