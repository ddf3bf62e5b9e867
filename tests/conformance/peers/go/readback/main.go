// readback prints every record of a topic below the end offsets it finds at start, one JSON
// object a line: partition, offset, key, value. The flights check compares it row for row.
//
//	readback -brokers HOST:PORT -topic T [-isolation uncommitted|committed]
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type row struct {
	Partition int32   `json:"p"`
	Offset    int64   `json:"o"`
	Key       *string `json:"k"`
	Value     *string `json:"v"`
}

func text(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// ends asks the leader for the end offset of each partition of the topic.
func ends(ctx context.Context, cl *kgo.Client, topic string) (map[int32]int64, error) {
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr(topic)
	meta.Topics = append(meta.Topics, mt)
	resp, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 {
		return nil, fmt.Errorf("metadata of %s: %+v", topic, resp.Topics)
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.ReplicaID = -1
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = topic
	for _, p := range resp.Topics[0].Partitions {
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Partition = p.Partition
		lp.Timestamp = -1
		lp.CurrentLeaderEpoch = -1
		lt.Partitions = append(lt.Partitions, lp)
	}
	list.Topics = append(list.Topics, lt)
	found := make(map[int32]int64)
	for _, shard := range cl.RequestSharded(ctx, list) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return nil, fmt.Errorf("partition %d: error %d", p.Partition, p.ErrorCode)
				}
				found[p.Partition] = p.Offset
			}
		}
	}
	return found, nil
}

func run() error {
	brokers := flag.String("brokers", "127.0.0.1:9092", "seed brokers")
	topic := flag.String("topic", "", "topic to read from its start")
	timeout := flag.Duration("timeout", 2*time.Minute, "give up after")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*brokers, ",")...),
		kgo.ConsumeTopics(*topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	left, err := ends(ctx, cl, *topic)
	if err != nil {
		return err
	}
	for p, end := range left {
		if end == 0 {
			delete(left, p)
		}
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("still unread: %v: %w", left, err)
		}
		fetches.EachError(func(t string, p int32, err error) {
			fmt.Fprintln(os.Stderr, "fetch error:", t, p, err)
		})
		fetches.EachRecord(func(r *kgo.Record) {
			_ = enc.Encode(row{r.Partition, r.Offset, text(r.Key), text(r.Value)})
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "readback:", err)
		os.Exit(1)
	}
}
