// A producer of franz-go that survives NOT_LEADER_OR_FOLLOWER on the third produce.
//
//	go mod init example && go mod tidy && go test
//
// It starts `kafkalite dev`, adds a fault over HTTP, and ends the broker.
package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// start runs a broker until the test ends; its address, and that of its admin port.
func start(t *testing.T) (ready, admin string) {
	t.Helper()
	command := exec.Command("kafkalite", "dev", "--quiet", "--listen", "127.0.0.1:0")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	lines := bufio.NewScanner(stdout)
	for (ready == "" || admin == "") && lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "ready: "); ok {
			ready = address
		}
		if address, ok := strings.CutPrefix(lines.Text(), "admin: "); ok {
			admin = address
		}
	}
	if ready == "" || admin == "" {
		t.Fatal("the broker ended")
	}
	return ready, admin
}

func TestTheProducerSurvivesALeaderThatMoves(t *testing.T) {
	ready, admin := start(t)
	fault := `{"kind": "error", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "on_call": 3}`
	answer, err := http.Post(admin+"/api/v1/faults", "application/json", bytes.NewBufferString(fault))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(ready),
		kgo.DefaultProduceTopic("orders"),
		kgo.AllowAutoTopicCreation(),
		// Otherwise it waits five seconds before it looks for the leader again.
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, value := range []string{"1", "2", "3"} {
		if err := client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	answer, err = http.Get(admin + "/api/v1/faults")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var told struct{ Faults []struct{ Fired int } }
	if err := json.NewDecoder(answer.Body).Decode(&told); err != nil {
		t.Fatal(err)
	}
	if len(told.Faults) != 1 || told.Faults[0].Fired != 1 {
		t.Fatalf("the fault did not strike once: %+v", told)
	}
}
