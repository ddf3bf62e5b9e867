// kafkago plays the script of the conformance suites with Segment's client, and prints what it
// saw: one JSON object a line, {"step": NAME, "saw": ANYTHING}. Nothing in it depends on the run.
//
//	kafkago -brokers HOST:PORT -prefix NAME
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/segmentio/kafka-go"
)

// script is one run: who it asks, and a prefix for its names.
type script struct {
	ctx     context.Context
	brokers string
	prefix  string
	client  *kafka.Client
}

// say prints one step.
func say(step string, saw any) {
	line, err := json.Marshal(map[string]any{"step": step, "saw": saw})
	must(err)
	fmt.Println(string(line))
}

// must ends the run: what it stands beside never fails.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafkago:", err)
		os.Exit(1)
	}
}

// told is the protocol's error in an error, by its number; -2 is an error of the client's.
func told(err error) int {
	var code kafka.Error
	var several kafka.WriteErrors
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &several):
		return told(several[0])
	case errors.As(err, new(kafka.MessageTooLargeError)):
		return int(kafka.MessageSizeTooLarge)
	}
	return -2
}

func (s *script) create(configs ...kafka.TopicConfig) map[string]int {
	answer, err := s.client.CreateTopics(s.ctx, &kafka.CreateTopicsRequest{Topics: configs})
	must(err)
	saw := map[string]int{}
	for topic, err := range answer.Errors {
		saw[topic[len(s.prefix):]] = told(err)
	}
	return saw
}

func (s *script) topics() {
	name := s.prefix + "-p"
	two := kafka.TopicConfig{Topic: name, NumPartitions: 2, ReplicationFactor: 1}
	say("create", s.create(two))
	say("create again and badly", s.create(two,
		kafka.TopicConfig{Topic: s.prefix + "-a b", NumPartitions: 1, ReplicationFactor: 1},
		kafka.TopicConfig{Topic: s.prefix + "-r", NumPartitions: 1, ReplicationFactor: 3},
		kafka.TopicConfig{Topic: s.prefix + "-c", NumPartitions: 1, ReplicationFactor: 1,
			ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "x"}}}))
	time.Sleep(300 * time.Millisecond)
	answer, err := s.client.CreatePartitions(s.ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: name, Count: 1}}})
	must(err)
	say("fewer partitions", told(answer.Errors[name]))
	metadata, err := s.client.Metadata(s.ctx, &kafka.MetadataRequest{Topics: []string{name, "a b"}})
	must(err)
	for _, topic := range metadata.Topics {
		say("metadata", []any{told(topic.Error), len(topic.Partitions), len(metadata.Brokers)})
	}
}

func (s *script) configs() {
	name := s.prefix + "-p"
	altered, err := s.client.IncrementalAlterConfigs(s.ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: name,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{
				{Name: "retention.ms", Value: "12345", ConfigOperation: kafka.ConfigOperationSet}},
		}}})
	must(err)
	say("alter", told(altered.Resources[0].Error))
	time.Sleep(300 * time.Millisecond)
	described, err := s.client.DescribeConfigs(s.ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: name,
			ConfigNames: []string{"retention.ms", "cleanup.policy"}}}})
	must(err)
	saw := map[string]string{}
	for _, entry := range described.Resources[0].ConfigEntries {
		saw[entry.ConfigName] = fmt.Sprint(entry.ConfigValue, entry.ReadOnly, entry.ConfigSource)
	}
	say("describe configs", saw)
}

func (s *script) produce() {
	codecs := []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd}
	for _, codec := range codecs {
		writer := s.writer(s.prefix + "-p")
		writer.Compression = codec
		messages := []kafka.Message{}
		for i := range 10 {
			messages = append(messages, kafka.Message{
				Key:     fmt.Append(nil, "key", i),
				Value:   fmt.Append(nil, codec, " ", i),
				Headers: []kafka.Header{{Key: "h", Value: []byte{byte(i)}}},
			})
		}
		say("produce "+codec.String(), told(writer.WriteMessages(s.ctx, messages...)))
		must(writer.Close())
	}
	writer := s.writer(s.prefix + "-p")
	large := kafka.Message{Value: make([]byte, 2_000_000)}
	say("produce too much", told(writer.WriteMessages(s.ctx, large)))
	must(writer.Close())
	writer = s.writer("a b")
	say("produce to a bad name", told(writer.WriteMessages(s.ctx, kafka.Message{Value: []byte("x")})))
	must(writer.Close())
}

func (s *script) writer(topic string) *kafka.Writer {
	return &kafka.Writer{Addr: kafka.TCP(s.brokers), Topic: topic, Balancer: &kafka.Hash{},
		RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond, BatchBytes: 4_000_000,
		MaxAttempts: 1}
}

func (s *script) consume() {
	name := s.prefix + "-p"
	for partition := range 2 {
		first, last := s.range_of(name, partition)
		reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{s.brokers}, Topic: name,
			Partition: partition, MaxWait: 100 * time.Millisecond})
		values := []string{}
		for int64(len(values)) < last-first {
			message, err := reader.ReadMessage(s.ctx)
			must(err)
			values = append(values, string(message.Value))
		}
		must(reader.Close())
		say("consume", []any{first, last, values})
	}
	answer, err := s.client.Fetch(s.ctx, &kafka.FetchRequest{Topic: name, Partition: 0,
		Offset: 1_000_000, MinBytes: 1, MaxBytes: 1_000, MaxWait: time.Millisecond})
	must(err)
	say("fetch out of range", told(answer.Error))
}

func (s *script) range_of(topic string, partition int) (int64, int64) {
	answer, err := s.client.ListOffsets(s.ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {
			kafka.FirstOffsetOf(partition), kafka.LastOffsetOf(partition)}}})
	must(err)
	for _, one := range answer.Topics[topic] {
		if one.Partition == partition {
			return one.FirstOffset, one.LastOffset
		}
	}
	return -1, -1
}

// group lets two readers share the topic until all was read, then looks at what they left.
func (s *script) group() {
	topic, group := s.prefix+"-p", s.prefix+"-g"
	total := int64(0)
	for partition := range 2 {
		_, last := s.range_of(topic, partition)
		total += last
	}
	values := make(chan string, 1_000)
	readers := [2]*kafka.Reader{}
	for i := range readers {
		readers[i] = kafka.NewReader(kafka.ReaderConfig{Brokers: []string{s.brokers}, GroupID: group,
			Topic: topic, MaxWait: 100 * time.Millisecond, StartOffset: kafka.FirstOffset})
		go func() {
			for {
				message, err := readers[i].ReadMessage(s.ctx)
				if err != nil {
					return
				}
				values <- string(message.Value)
			}
		}()
	}
	seen := map[string]bool{}
	for int64(len(seen)) < total {
		select {
		case value := <-values:
			seen[value] = true
		case <-time.After(30 * time.Second):
			must(fmt.Errorf("a group of two read %d of %d", len(seen), total))
		}
	}
	members := func() *kafka.DescribeGroupsResponseGroup {
		answer, err := s.client.DescribeGroups(s.ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
		must(err)
		return &answer.Groups[0]
	}
	until := time.Now().Add(30 * time.Second)
	described := members()
	for (described.GroupState != "Stable" || len(described.Members) < 2) && time.Now().Before(until) {
		time.Sleep(100 * time.Millisecond)
		described = members()
	}
	owned := []int{}
	for _, member := range described.Members {
		for _, topic := range member.MemberAssignments.Topics {
			owned = append(owned, len(topic.Partitions))
		}
	}
	sort.Ints(owned)
	say("group of two", []any{described.GroupState, owned, len(seen)})
	for _, reader := range readers {
		must(reader.Close())
	}
	say("when both left", []any{members().GroupState, len(members().Members)})
	s.offsets(topic, group)
}

func (s *script) offsets(topic, group string) {
	fetched, err := s.client.OffsetFetch(s.ctx, &kafka.OffsetFetchRequest{GroupID: group,
		Topics: map[string][]int{topic: {0, 1, 7}}})
	must(err)
	saw := []any{}
	for _, one := range fetched.Topics[topic] {
		saw = append(saw, []any{one.Partition, one.CommittedOffset, told(one.Error)})
	}
	say("committed", saw)
	listed, err := s.client.ListGroups(s.ctx, &kafka.ListGroupsRequest{})
	must(err)
	for _, one := range listed.Groups {
		if one.GroupID == group {
			say("list groups", told(listed.Error))
		}
	}
	for _, step := range []string{"delete the group", "delete it again"} {
		answer, err := s.client.DeleteGroups(s.ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
		must(err)
		say(step, told(answer.Errors[group]))
	}
}

func (s *script) cluster() {
	id, err := s.client.InitProducerID(s.ctx, &kafka.InitProducerIDRequest{})
	must(err)
	say("producer id", []any{told(id.Error), id.Producer.ProducerEpoch})
	elected, err := s.client.ElectLeaders(s.ctx, &kafka.ElectLeadersRequest{
		Topic: s.prefix + "-p", Partitions: []int{0}, Timeout: 5 * time.Second})
	must(err)
	say("elect", []any{told(elected.Error), len(elected.PartitionResults)})
	acls, err := s.client.DescribeACLs(s.ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
		ResourceTypeFilter: kafka.ResourceTypeAny, ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny}})
	must(err)
	say("acls", told(acls.Error))
	users, err := s.client.DescribeUserScramCredentials(s.ctx, &kafka.DescribeUserScramCredentialsRequest{
		Users: []kafka.UserScramCredentialsUser{{Name: "u"}}})
	must(err)
	say("scram", []any{told(users.Error), told(users.Results[0].Error)})
	moved, err := s.client.ListPartitionReassignments(s.ctx, &kafka.ListPartitionReassignmentsRequest{})
	must(err)
	say("reassignments", []any{told(moved.Error), len(moved.Topics)})
	versions, err := s.client.ApiVersions(s.ctx, &kafka.ApiVersionsRequest{})
	must(err)
	say("versions", told(versions.Error))
}

func (s *script) deletions() {
	name := s.prefix + "-p"
	answer, err := s.client.DeleteTopics(s.ctx, &kafka.DeleteTopicsRequest{Topics: []string{name, s.prefix + "-none"}})
	must(err)
	say("delete topics", []any{told(answer.Errors[name]), told(answer.Errors[s.prefix+"-none"])})
}

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "one seed broker")
	prefix := flag.String("prefix", "kafkago", "prefix of names")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	address := kafka.TCP(*brokers)
	s := &script{ctx: ctx, brokers: *brokers, prefix: *prefix,
		client: &kafka.Client{Addr: address, Timeout: 15 * time.Second}}
	for _, step := range []func(){s.topics, s.configs, s.produce, s.consume, s.group, s.cluster, s.deletions} {
		step()
	}
}
