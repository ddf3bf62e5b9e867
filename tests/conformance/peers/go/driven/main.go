// driven does with franz-go what a test says, one JSON object a line on stdin, and tells the outcome.
//
//	{"n": 1, "do": "produce", "client": "c", "servers": "HOST:PORT", "topic": "t", "partition": 0, "value": "v"}
//	{"n": 1, "offset": 0}
//
// A client is made at the first command that names it. Its commands run in order, those of two
// clients side by side. The program ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Longer than a client of a test is ever stuck.
const patience = 60 * time.Second

// command is a line of the input.
type command struct {
	N         int    `json:"n"`
	Do        string `json:"do"`
	Client    string `json:"client"`
	Servers   string `json:"servers"`
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Value     string `json:"value"`
	Count     int    `json:"count"`
	Offset    int64  `json:"offset"`
	Rack      string `json:"rack"`
}

// outcome is a line of the output.
type outcome struct {
	N      int      `json:"n"`
	Offset *int64   `json:"offset,omitempty"`
	Values []string `json:"values,omitempty"`
	Error  string   `json:"error,omitempty"`
}

// driven is a client and the commands that wait for it.
type driven struct {
	client *kgo.Client
	todo   chan command
}

func (d *driven) open(c command) error {
	if d.client != nil {
		return nil
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(c.Servers, ",")...),
		kgo.ClientID(c.Client),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if c.Rack != "" {
		options = append(options, kgo.Rack(c.Rack))
	}
	switch {
	case c.Do == "join":
		options = append(options,
			kgo.ConsumerGroup(c.Group),
			kgo.ConsumeTopics(c.Topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.DisableAutoCommit(),
		)
	case c.Do == "read":
		from := map[int32]kgo.Offset{c.Partition: kgo.NewOffset().AtStart()}
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: from}))
	}
	var err error
	d.client, err = kgo.NewClient(options...)
	return err
}

func (d *driven) run(ctx context.Context, c command) (done outcome, err error) {
	if c.Do == "close" {
		if d.client != nil {
			d.client.Close()
		}
		return done, nil
	}
	if err := d.open(c); err != nil {
		return done, err
	}
	switch c.Do {
	case "produce":
		record := &kgo.Record{Topic: c.Topic, Partition: c.Partition, Value: []byte(c.Value)}
		produced, err := d.client.ProduceSync(ctx, record).First()
		if err != nil {
			return done, err
		}
		done.Offset = &produced.Offset
	case "read", "join":
		for len(done.Values) < c.Count {
			fetches := d.client.PollFetches(ctx)
			if ctx.Err() != nil {
				return done, ctx.Err()
			}
			fetches.EachRecord(func(record *kgo.Record) {
				done.Values = append(done.Values, string(record.Value))
			})
		}
	case "commit":
		at := kgo.Record{Topic: c.Topic, Partition: c.Partition, Offset: c.Offset - 1, LeaderEpoch: -1}
		return done, d.client.CommitRecords(ctx, &at)
	default:
		return done, fmt.Errorf("there is no command %q", c.Do)
	}
	return done, nil
}

func main() {
	var out sync.Mutex
	say := json.NewEncoder(os.Stdout)
	clients := map[string]*driven{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, "driven:", err)
			os.Exit(2)
		}
		d, known := clients[c.Client]
		if !known {
			d = &driven{todo: make(chan command, 100)}
			clients[c.Client] = d
			go func() {
				for c := range d.todo {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					done, err := d.run(ctx, c)
					cancel()
					if done.N = c.N; err != nil {
						done.Error = err.Error()
					}
					out.Lock()
					_ = say.Encode(done)
					out.Unlock()
				}
			}()
		}
		d.todo <- c
	}
}
