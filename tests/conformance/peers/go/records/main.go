// records reads and writes records with franz-go, one JSON object a line, bytes in base64.
//
//	records read -brokers HOST:PORT TOPIC...   every record below the end offsets found at start
//	records write -brokers HOST:PORT           those of stdin, each with its topic and codec
//
// Offsets and partitions are what was read; a writer leaves partitions to franz-go's default.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// header is one header of a record; a null value is nil.
type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// row is a record; encoding/json spells bytes in base64, and nil as null.
type row struct {
	Topic     string   `json:"topic"`
	Codec     string   `json:"codec,omitempty"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("say read or write")
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	brokers := flags.String("brokers", "127.0.0.1:9092", "seed brokers")
	timeout := flags.Duration("timeout", 2*time.Minute, "give up after")
	_ = flags.Parse(os.Args[2:])
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	seeds := strings.Split(*brokers, ",")
	switch os.Args[1] {
	case "read":
		return read(ctx, seeds, flags.Args())
	case "write":
		return write(ctx, seeds)
	}
	return fmt.Errorf("neither read nor write: %s", os.Args[1])
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "records:", err)
		os.Exit(1)
	}
}
