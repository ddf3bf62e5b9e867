package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// writers has one client for each codec: compression is a client's setting.
type writers struct {
	seeds []string
	all   map[string]*kgo.Client
}

func (w *writers) of(codec string) (*kgo.Client, error) {
	if cl, ok := w.all[codec]; ok {
		return cl, nil
	}
	known, ok := codecs[codec]
	if !ok {
		return nil, fmt.Errorf("no codec is called %q", codec)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.seeds...), kgo.ProducerBatchCompression(known))
	if err == nil {
		w.all[codec] = cl
	}
	return cl, err
}

func write(ctx context.Context, seeds []string) error {
	ws := writers{seeds, make(map[string]*kgo.Client)}
	defer func() {
		for _, cl := range ws.all {
			cl.Close()
		}
	}()
	var mu sync.Mutex
	var failed error
	dec := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	for {
		var r row
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		cl, err := ws.of(r.Codec)
		if err != nil {
			return err
		}
		record := &kgo.Record{
			Topic: r.Topic, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp),
		}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		cl.Produce(ctx, record, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil && failed == nil {
				failed = err
			}
		})
	}
	for _, cl := range ws.all {
		if err := cl.Flush(ctx); err != nil {
			return err
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return failed
}
