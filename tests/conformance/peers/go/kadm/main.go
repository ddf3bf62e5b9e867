// kadm plays the script of the conformance suites with franz-go's admin client, and prints what it
// saw: one JSON object a line, {"step": NAME, "saw": ANYTHING}. Nothing in it depends on the run.
//
//	kadm -brokers HOST:PORT -prefix NAME
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
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// script is one run: who it asks, and the names of its topic and of its group.
type script struct {
	ctx   context.Context
	kafka *kgo.Client
	admin *kadm.Client
	topic string
	group string
}

// baseMs is the time of the first record, in milliseconds since the epoch.
const baseMs = 1_700_000_000_000

// say prints one step.
func say(step string, saw ...any) {
	line, err := json.Marshal(map[string]any{"step": step, "saw": saw})
	must(err)
	fmt.Println(string(line))
}

// must ends the run: what it stands beside never fails.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "kadm:", err)
		os.Exit(1)
	}
}

// told is the protocol's error in an error, by its name.
func told(err error) string {
	var code *kerr.Error
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &code):
		return code.Message
	}
	return "an error of the client's"
}

// short is a name without what only this run has in it.
func (s *script) short(name string) string {
	return strings.ReplaceAll(name, strings.TrimSuffix(s.topic, "-t"), "")
}

// settle waits until what was answered is applied: Kafka's broker follows its controller.
func (s *script) settle() { time.Sleep(300 * time.Millisecond) }

func (s *script) topics() {
	keep := "-1"
	created, err := s.admin.CreateTopics(s.ctx, 2, 1, map[string]*string{"retention.ms": &keep}, s.topic)
	say("create", len(created), told(err))
	again, err := s.admin.CreateTopics(s.ctx, 1, 1, nil, s.topic, "a b")
	must(err)
	say("create again and badly", told(again[s.topic].Err), told(again["a b"].Err))
	tried, err := s.admin.ValidateCreateTopics(s.ctx, -1, -1, nil, s.topic+"2")
	must(err)
	one := tried[s.topic+"2"]
	say("validate", told(one.Err), one.NumPartitions, one.ReplicationFactor, len(one.Configs) > 0)
	s.settle()
	listed, err := s.admin.ListTopics(s.ctx, s.topic, s.topic+"2")
	must(err)
	for _, topic := range listed.Sorted() {
		ids := []any{len(topic.Partitions), topic.IsInternal, told(topic.Err), topic.ID != kadm.TopicID{}}
		say("list "+s.short(topic.Topic), ids)
	}
	grown, err := s.admin.CreatePartitions(s.ctx, 1, s.topic, s.topic+"2")
	must(err)
	say("one partition more", told(grown[s.topic].Err), told(grown[s.topic+"2"].Err))
	s.settle()
	fewer, err := s.admin.UpdatePartitions(s.ctx, 1, s.topic)
	must(err)
	say("fewer partitions", told(fewer[s.topic].Err))
}

func (s *script) configs() {
	value, list := "12345678901234", "compact"
	changes := []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "retention.ms", Value: &value},
		{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: &list},
	}
	tried, err := s.admin.ValidateAlterTopicConfigs(s.ctx, changes, s.topic, s.topic+"2")
	must(err)
	for _, one := range tried {
		say("validate "+s.short(one.Name), told(one.Err))
	}
	altered, err := s.admin.AlterTopicConfigs(s.ctx, changes, s.topic)
	must(err)
	say("alter", told(altered[0].Err))
	s.settle()
	s.describe("altered")
	undone, err := s.admin.AlterTopicConfigsState(s.ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &value}}, s.topic)
	must(err)
	say("replace", told(undone[0].Err))
	s.settle()
	s.describe("replaced")
	no := "no such value"
	refused, err := s.admin.AlterTopicConfigs(s.ctx, []kadm.AlterConfig{{Name: "cleanup.policy", Value: &no}}, s.topic)
	must(err)
	say("alter badly", told(refused[0].Err))
	brokers, err := s.admin.DescribeBrokerConfigs(s.ctx)
	must(err)
	say("configs of the cluster", len(brokers))
	resources, err := s.admin.ListConfigResources(s.ctx, kmsg.ConfigResourceTypeTopic)
	found := 0
	for _, one := range resources.Resources {
		if one.Name == s.topic {
			found++
		}
	}
	say("config resources", told(err), found)
}

func (s *script) describe(step string) {
	described, err := s.admin.DescribeTopicConfigs(s.ctx, s.topic)
	must(err)
	saw := map[string]any{}
	for _, one := range described[0].Configs {
		if one.Key == "retention.ms" || one.Key == "cleanup.policy" || one.Key == "segment.bytes" {
			synonyms := []string{}
			for _, synonym := range one.Synonyms {
				synonyms = append(synonyms, fmt.Sprint(synonym.Key, " ", *synonym.Value, " ", synonym.Source))
			}
			saw[one.Key] = []any{one.MaybeValue(), one.Source.String(), synonyms}
		}
	}
	say(step, told(described[0].Err), saw)
}

func (s *script) records() {
	for i := range 20 {
		record := &kgo.Record{Topic: s.topic, Partition: int32(i % 2), Key: []byte{byte(i)},
			Value: fmt.Append(nil, i), Timestamp: time.UnixMilli(baseMs + int64(i)*1000)}
		must(s.kafka.ProduceSync(s.ctx, record).FirstErr())
	}
	s.listed("start", s.admin.ListStartOffsets)
	s.listed("end", s.admin.ListEndOffsets)
	s.listed("committed", s.admin.ListCommittedOffsets)
	s.listed("largest time", s.admin.ListMaxTimestampOffsets)
	s.listed("local start", s.admin.ListLocalLogStartOffsets)
	s.listed("remote end", s.admin.ListLatestRemoteOffsets)
	for _, milli := range []int64{0, baseMs, baseMs + 5_500, baseMs + 1_000_000} {
		s.listed(fmt.Sprint("after ", milli), func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return s.admin.ListOffsetsAfterMilli(ctx, milli, topics...)
		})
	}
	deleted, err := s.admin.DeleteRecords(s.ctx, s.offsets(4, 100))
	must(err)
	for _, one := range deleted.Sorted() {
		say("delete records", one.Partition, one.LowWatermark, told(one.Err))
	}
	s.listed("start after that", s.admin.ListStartOffsets)
	request := kadm.OffsetForLeaderEpochRequest{}
	request.Add(s.topic, 0, 0)
	request.Add(s.topic, 1, 5)
	ends, err := s.admin.OffsetForLeaderEpoch(s.ctx, request)
	must(err)
	for partition := range int32(2) {
		one := ends[s.topic][partition]
		say("end of epoch", partition, one.LeaderEpoch, one.EndOffset, told(one.Err))
	}
}

func (s *script) listed(step string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) {
	offsets, err := list(s.ctx, s.topic)
	saw := []any{}
	partitions := offsets[s.topic]
	for partition := range int32(len(partitions)) {
		one := partitions[partition]
		saw = append(saw, []any{one.Offset, one.Timestamp, one.LeaderEpoch, told(one.Err)})
	}
	say(step, told(err), saw)
}

func (s *script) offsets(first, second int64) kadm.Offsets {
	offsets := kadm.Offsets{}
	offsets.AddOffset(s.topic, 0, first, -1)
	offsets.AddOffset(s.topic, 1, second, -1)
	return offsets
}

func (s *script) groups() {
	committed, err := s.admin.CommitOffsets(s.ctx, s.group, s.offsets(5, 7))
	must(err)
	say("commit", told(committed.Error()))
	fetched, err := s.admin.FetchOffsetsForTopics(s.ctx, s.group, s.topic)
	must(err)
	for _, one := range fetched.Sorted() {
		say("committed", one.Partition, one.At, one.Metadata, told(one.Err))
	}
	none, err := s.admin.FetchOffsets(s.ctx, s.group+"-none")
	say("nobody's", len(none), told(err))
	s.lag("lag of an empty group")
	member, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.OptValue(kgo.SeedBrokers).([]string)...),
		kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic), kgo.ClientID("member"),
		kgo.DisableAutoCommit(), kgo.InstanceID("one"))
	must(err)
	read := 0
	for read < 8 {
		read += member.PollFetches(s.ctx).NumRecords()
	}
	must(member.CommitUncommittedOffsets(s.ctx))
	s.lag("lag of a member")
	described, err := s.admin.DescribeGroups(s.ctx, s.group, s.group+"-none")
	must(err)
	for _, one := range described.Sorted() {
		saw := []any{one.State, one.ProtocolType, one.Protocol, len(one.Members), told(one.Err)}
		for _, member := range one.Members {
			saw = append(saw, *member.InstanceID, member.ClientID, member.ClientHost)
		}
		say("group"+s.short(one.Group), saw...)
	}
	subscribed, err := s.admin.DeleteOffsets(s.ctx, s.group, kadm.TopicsSet{s.topic: {0: {}}})
	must(err)
	say("delete offsets in use", told(subscribed.Error()))
	say("delete in use", s.deleted(s.group))
	left, err := s.admin.LeaveGroup(s.ctx, kadm.LeaveGroup(s.group).InstanceIDs("one", "two").Reason("the end"))
	must(err)
	for _, one := range left.Sorted() {
		say("leave "+one.InstanceID, told(one.Err))
	}
	member.Close()
	s.lag("lag when it left")
	removed, err := s.admin.DeleteOffsets(s.ctx, s.group, kadm.TopicsSet{s.topic: {0: {}, 9: {}}})
	must(err)
	for _, partition := range []int32{0, 9} {
		say("delete offsets", partition, told(removed[s.topic][partition]))
	}
	for _, state := range []string{"Empty", "Stable"} {
		listed, err := s.admin.ListGroups(s.ctx, state)
		must(err)
		say("list groups", state, listed[s.group].State)
	}
	say("delete", s.deleted(s.group, s.group+"-none"))
}

func (s *script) lag(step string) {
	lags, err := s.admin.Lag(s.ctx, s.group)
	must(err)
	one := lags[s.group]
	saw := []any{one.State, told(one.Error())}
	for _, lag := range one.Lag.Sorted() {
		saw = append(saw, []any{lag.Partition, lag.Lag, lag.Commit.At, lag.Start.Offset, lag.End.Offset, told(lag.Err)})
	}
	say(step, saw...)
}

func (s *script) deleted(groups ...string) map[string]string {
	saw := map[string]string{}
	answers, err := s.admin.DeleteGroups(s.ctx, groups...)
	must(err)
	for _, one := range answers {
		saw[s.short(one.Group)] = told(one.Err)
	}
	return saw
}

func (s *script) cluster() {
	metadata, err := s.admin.BrokerMetadata(s.ctx)
	must(err)
	say("brokers", len(metadata.Brokers), metadata.Cluster != "", metadata.Controller >= 0)
	elected, err := s.admin.ElectLeaders(s.ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{s.topic: {0: {}, 9: {}}})
	must(err)
	for _, partition := range []int32{0, 9} {
		say("elect", partition, told(elected[s.topic][partition].Err))
	}
	producers, err := s.admin.DescribeProducers(s.ctx, kadm.TopicsSet{s.topic: {0: {}}})
	must(err)
	for _, one := range producers.SortedProducers() {
		say("producer", one.ProducerEpoch, one.LastSequence, one.CurrentTxnStartOffset, one.CoordinatorEpoch)
	}
	dirs, err := s.admin.DescribeAllLogDirs(s.ctx, kadm.TopicsSet{s.topic: {0: {}}})
	must(err)
	for _, one := range dirs {
		for _, dir := range one {
			size := int64(0)
			dir.Topics.Each(func(partition kadm.DescribedLogDirPartition) { size += partition.Size })
			say("log dirs", told(dir.Err), size)
		}
	}
	moves, err := s.admin.ListPartitionReassignments(s.ctx, kadm.TopicsSet{s.topic: {0: {}}})
	say("reassignments", len(moves), told(err))
	acls, err := s.admin.DescribeACLs(s.ctx, kadm.NewACLs().Topics().ResourcePatternType(kadm.ACLPatternAny).Operations().Allow().AllowHosts().Deny().DenyHosts())
	say("acls", len(acls), told(err))
	quotas, err := s.admin.DescribeClientQuotas(s.ctx, false, nil)
	say("quotas", len(quotas), told(err))
	versions, err := s.admin.ApiVersions(s.ctx)
	must(err)
	for _, one := range versions {
		raw, ok := one.KeyMaxVersion(0)
		say("versions", told(one.Err), raw, ok)
	}
}

func (s *script) deletions() {
	answers, err := s.admin.DeleteTopics(s.ctx, s.topic, s.topic+"2")
	must(err)
	names := []string{}
	for name, one := range answers {
		names = append(names, s.short(name)+" "+told(one.Err))
	}
	sort.Strings(names)
	say("delete topics", names)
}

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "one seed broker")
	prefix := flag.String("prefix", "kadm", "prefix of names")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(*brokers), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(err)
	s := &script{ctx: ctx, kafka: client, admin: kadm.NewClient(client), topic: *prefix + "-t", group: *prefix + "-g"}
	for _, step := range []func(){s.topics, s.configs, s.records, s.groups, s.cluster, s.deletions} {
		step()
	}
	client.Close()
}
