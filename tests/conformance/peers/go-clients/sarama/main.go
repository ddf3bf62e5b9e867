// sarama plays the script of the conformance suites with IBM's client, and prints what it saw:
// one JSON object a line, {"step": NAME, "saw": ANYTHING}. Nothing in it depends on the run.
//
//	sarama -brokers HOST:PORT -version 2.1.0 -prefix NAME
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// script is one run: its connection's settings, and a prefix for its names.
type script struct {
	brokers []string
	prefix  string
	config  *sarama.Config
	admin   sarama.ClusterAdmin
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
		fmt.Fprintln(os.Stderr, "sarama:", err)
		os.Exit(1)
	}
}

// told is the protocol's error in an error, by its number; -2 is an error of the client's.
func told(err error) int {
	var code sarama.KError
	var topic *sarama.TopicError
	var partition *sarama.TopicPartitionError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &topic):
		return int(topic.Err)
	case errors.As(err, &partition):
		return int(partition.Err)
	case errors.As(err, &code):
		return int(code)
	}
	return -2
}

func (s *script) topics() {
	two := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}
	name := s.prefix + "-t"
	say("create", told(s.admin.CreateTopic(name, two, false)))
	say("create again", told(s.admin.CreateTopic(name, two, false)))
	say("create only to validate", told(s.admin.CreateTopic(s.prefix+"-v", two, true)))
	bad := "x"
	wrong := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"retention.ms": &bad}}
	say("create with a bad config", told(s.admin.CreateTopic(s.prefix+"-w", wrong, false)))
	many := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 3}
	say("create with three replicas", told(s.admin.CreateTopic(s.prefix+"-w", many, false)))
	say("create with a bad name", told(s.admin.CreateTopic("a b", two, false)))
	time.Sleep(300 * time.Millisecond)
	say("more partitions", told(s.admin.CreatePartitions(name, 3, nil, false)))
	say("fewer partitions", told(s.admin.CreatePartitions(name, 1, nil, false)))
	time.Sleep(300 * time.Millisecond)
	described, err := s.admin.DescribeTopics([]string{name, s.prefix + "-none"})
	must(err)
	for _, topic := range described {
		say("describe", []any{int(topic.Err), len(topic.Partitions)})
	}
}

func (s *script) configs() {
	name := s.prefix + "-t"
	value := "12345"
	say("alter", told(s.admin.AlterConfig(sarama.TopicResource, name,
		map[string]*string{"retention.ms": &value}, false)))
	time.Sleep(300 * time.Millisecond)
	for _, resource := range []sarama.ConfigResource{
		{Type: sarama.TopicResource, Name: name, ConfigNames: []string{"retention.ms", "cleanup.policy"}},
		{Type: sarama.TopicResource, Name: s.prefix + "-none"},
	} {
		entries, err := s.admin.DescribeConfig(resource)
		saw := map[string]string{}
		for _, entry := range entries {
			saw[entry.Name] = fmt.Sprint(entry.Value, entry.ReadOnly, entry.Source)
		}
		say("describe configs", []any{told(err), saw})
	}
	change := map[string]sarama.IncrementalAlterConfigsEntry{
		"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: &compact},
	}
	if s.config.Version.IsAtLeast(sarama.V2_3_0_0) {
		say("append", told(s.admin.IncrementalAlterConfig(sarama.TopicResource, name, change, false)))
	}
}

var compact = "compact"

func (s *script) produce() {
	name := s.prefix + "-p"
	must(s.admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false))
	time.Sleep(500 * time.Millisecond)
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP,
		sarama.CompressionSnappy, sarama.CompressionLZ4}
	if s.config.Version.IsAtLeast(sarama.V2_1_0_0) {
		codecs = append(codecs, sarama.CompressionZSTD)
	}
	for _, codec := range codecs {
		config := *s.config
		config.Producer.Compression = codec
		s.send("produce "+codec.String(), &config, name, 10)
	}
	if s.config.Version.IsAtLeast(sarama.V0_11_0_0) {
		config := *s.config
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
		s.send("produce idempotent", &config, name, 10)
	}
	config := *s.config
	config.Producer.MaxMessageBytes = 4_000_000
	producer, err := sarama.NewSyncProducer(s.brokers, &config)
	must(err)
	defer producer.Close()
	large := sarama.ByteEncoder(make([]byte, 2_000_000))
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: name, Value: large})
	say("produce too much", told(err))
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: "a b", Value: sarama.StringEncoder("x")})
	say("produce to a bad name", told(err))
}

func (s *script) send(step string, config *sarama.Config, topic string, count int) {
	producer, err := sarama.NewSyncProducer(s.brokers, config)
	must(err)
	defer producer.Close()
	saw := []any{}
	for i := range count {
		partition, offset, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: topic,
			Key:   sarama.StringEncoder(fmt.Sprint("key", i)),
			Value: sarama.StringEncoder(fmt.Sprint(step, " ", i)),
		})
		saw = append(saw, []any{partition, offset, told(err)})
	}
	say(step, saw)
}

func (s *script) consume() {
	name := s.prefix + "-p"
	client, err := sarama.NewClient(s.brokers, s.config)
	must(err)
	defer client.Close()
	consumer, err := sarama.NewConsumerFromClient(client)
	must(err)
	defer consumer.Close()
	for partition := range int32(2) {
		end, err := client.GetOffset(name, partition, sarama.OffsetNewest)
		must(err)
		start, err := client.GetOffset(name, partition, sarama.OffsetOldest)
		must(err)
		part, err := consumer.ConsumePartition(name, partition, sarama.OffsetOldest)
		must(err)
		values := []string{}
		for int64(len(values)) < end-start {
			message := <-part.Messages()
			values = append(values, string(message.Value))
		}
		must(part.Close())
		say("consume", []any{start, end, values})
	}
	_, err = consumer.ConsumePartition(name, 0, 1_000_000)
	say("consume out of range", told(err))
	_, err = client.GetOffset(name, 7, sarama.OffsetNewest)
	say("offset of an unknown partition", told(err))
}

// member is one consumer of the group; what it reads goes to `read`, what it was given to `owned`.
type member struct {
	read  chan string
	owned chan int
}

func (m member) Setup(session sarama.ConsumerGroupSession) error {
	count := 0
	for _, partitions := range session.Claims() {
		count += len(partitions)
	}
	m.owned <- count
	return nil
}

func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			session.MarkMessage(message, "")
			m.read <- string(message.Value)
		case <-session.Context().Done():
			return nil
		}
	}
}

// group lets two members share the topic until all is read and each owns one partition.
func (s *script) group() {
	topic, group := s.prefix+"-p", s.prefix+"-g"
	ctx, cancel := context.WithCancel(context.Background())
	config := *s.config
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	read := make(chan string, 1_000)
	owns := [2]chan int{make(chan int, 100), make(chan int, 100)}
	var members sync.WaitGroup
	for i := range owns {
		one, err := sarama.NewConsumerGroup(s.brokers, group, &config)
		must(err)
		members.Add(1)
		go func() {
			defer members.Done()
			defer one.Close()
			for ctx.Err() == nil {
				_ = one.Consume(ctx, []string{topic}, member{read, owns[i]})
			}
		}()
	}
	last, seen := [2]int{-1, -1}, map[string]bool{}
	client, err := sarama.NewClient(s.brokers, s.config)
	must(err)
	total := int64(0)
	for partition := range int32(2) {
		end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
		must(err)
		total += end
	}
	must(client.Close())
	for last != [2]int{1, 1} || int64(len(seen)) < total {
		select {
		case value := <-read:
			seen[value] = true
		case last[0] = <-owns[0]:
		case last[1] = <-owns[1]:
		case <-time.After(30 * time.Second):
			must(fmt.Errorf("a group of two owns %v and read %d of %d", last, len(seen), total))
		}
	}
	say("group of two", []any{last, len(seen)})
	described, err := s.admin.DescribeConsumerGroups([]string{group})
	must(err)
	say("describe the group", []any{described[0].State, described[0].ProtocolType, described[0].Protocol,
		len(described[0].Members)})
	cancel()
	members.Wait()
	s.offsets(topic, group)
}

func (s *script) offsets(topic, group string) {
	groups, err := s.admin.ListConsumerGroups()
	must(err)
	say("list groups", groups[group])
	offsets, err := s.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 7}})
	must(err)
	saw := []any{}
	for _, partition := range []int32{0, 1, 7} {
		block := offsets.GetBlock(topic, partition)
		saw = append(saw, []any{block.Offset, int(block.Err)})
	}
	say("committed", saw)
	if s.config.Version.IsAtLeast(sarama.V2_4_0_0) {
		say("delete an offset", told(s.admin.DeleteConsumerGroupOffset(group, topic, 0)))
	}
	say("delete the group", told(s.admin.DeleteConsumerGroup(group)))
	say("delete it again", told(s.admin.DeleteConsumerGroup(group)))
}

func (s *script) cluster() {
	brokers, _, err := s.admin.DescribeCluster()
	must(err)
	say("cluster", len(brokers))
	dirs, err := s.admin.DescribeLogDirs([]int32{brokers[0].ID()})
	must(err)
	say("log dirs", len(dirs))
	acls, err := s.admin.ListAcls(sarama.AclFilter{ResourceType: sarama.AclResourceAny,
		ResourcePatternTypeFilter: sarama.AclPatternAny, PermissionType: sarama.AclPermissionAny,
		Operation: sarama.AclOperationAny})
	say("acls", []any{told(err), len(acls)})
	if s.config.Version.IsAtLeast(sarama.V2_6_0_0) {
		quotas, err := s.admin.DescribeClientQuotas(nil, false)
		say("quotas", []any{told(err), len(quotas)})
	}
	if s.config.Version.IsAtLeast(sarama.V2_7_0_0) {
		users, err := s.admin.DescribeUserScramCredentials([]string{"u"})
		must(err)
		say("scram", int(users[0].ErrorCode))
	}
	if s.config.Version.IsAtLeast(sarama.V2_4_0_0) {
		status, err := s.admin.ListPartitionReassignments(s.prefix+"-p", []int32{0})
		say("reassignments", []any{told(err), len(status)})
	}
}

func (s *script) deletions() {
	name := s.prefix + "-p"
	say("delete records", told(s.admin.DeleteRecords(name, map[int32]int64{0: 3})))
	say("delete too many", told(s.admin.DeleteRecords(name, map[int32]int64{0: 1_000_000})))
	say("delete the topic", told(s.admin.DeleteTopic(name)))
	say("delete an unknown one", told(s.admin.DeleteTopic(s.prefix+"-none")))
	topics, err := s.admin.ListTopics()
	must(err)
	left := []string{}
	for topic := range topics {
		if strings.HasPrefix(topic, s.prefix) {
			left = append(left, strings.TrimPrefix(topic, s.prefix))
		}
	}
	sort.Strings(left)
	say("left", left)
}

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "seed brokers")
	version := flag.String("version", "2.1.0", "the release of Kafka to speak as")
	prefix := flag.String("prefix", "sarama", "prefix of names")
	flag.Parse()
	config := sarama.NewConfig()
	var err error
	config.Version, err = sarama.ParseKafkaVersion(*version)
	must(err)
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max = 1
	config.Consumer.Group.Rebalance.Timeout = 6 * time.Second
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	s := &script{brokers: strings.Split(*brokers, ","), prefix: *prefix, config: config}
	s.admin, err = sarama.NewClusterAdmin(s.brokers, config)
	must(err)
	for _, step := range []func(){s.topics, s.configs, s.produce, s.consume, s.group, s.cluster, s.deletions} {
		step()
	}
	must(s.admin.Close())
}
