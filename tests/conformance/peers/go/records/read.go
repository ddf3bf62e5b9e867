package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// ends asks the leaders for the end offset of each partition that holds something.
func ends(ctx context.Context, cl *kgo.Client, topics []string) (map[place]int64, error) {
	meta := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = kmsg.StringPtr(topic)
		meta.Topics = append(meta.Topics, mt)
	}
	resp, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.ReplicaID = -1
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 {
			return nil, fmt.Errorf("metadata of %s: error %d", *t.Topic, t.ErrorCode)
		}
		lt := kmsg.NewListOffsetsRequestTopic()
		lt.Topic = *t.Topic
		for _, p := range t.Partitions {
			lp := kmsg.NewListOffsetsRequestTopicPartition()
			lp.Partition = p.Partition
			lp.Timestamp = -1
			lp.CurrentLeaderEpoch = -1
			lt.Partitions = append(lt.Partitions, lp)
		}
		list.Topics = append(list.Topics, lt)
	}
	found := make(map[place]int64)
	for _, shard := range cl.RequestSharded(ctx, list) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return nil, fmt.Errorf("%s-%d: error %d", t.Topic, p.Partition, p.ErrorCode)
				}
				if p.Offset > 0 {
					found[place{t.Topic, p.Partition}] = p.Offset
				}
			}
		}
	}
	return found, nil
}

// rowOf is a record as it was read.
func rowOf(r *kgo.Record) row {
	headers := make([]header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = header{h.Key, h.Value}
	}
	return row{r.Topic, "", r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, headers}
}

func read(ctx context.Context, seeds []string, topics []string) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	left, err := ends(ctx, cl, topics)
	if err != nil {
		return err
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
			_ = enc.Encode(rowOf(r))
			at := place{r.Topic, r.Partition}
			if r.Offset+1 >= left[at] {
				delete(left, at)
			}
		})
	}
	return nil
}
