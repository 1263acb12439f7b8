package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// lineCount cancels a command after a number of output lines.
type lineCount struct {
	text  bytes.Buffer
	want  int
	ended context.CancelFunc
}

func (l *lineCount) Write(p []byte) (int, error) {
	n, err := l.text.Write(p)
	if l.want -= bytes.Count(p, []byte("\n")); l.want <= 0 {
		l.ended()
	}
	return n, err
}

// Partitions are read concurrently, and each record is a separate line.
func TestFirehoseOfTwoPartitions(t *testing.T) {
	server := natstest.Start(t, natstest.Listen())
	const sessions, each = 6, 500
	for s := range sessions {
		var in strings.Builder
		for i := range each {
			fmt.Fprintf(&in, `{"type":"custom","agentId":"a","agentType":"t","timestamp":1,"step":0,"eventName":"n","data":%d}`+"\n", i)
		}
		args := []string{"publish", "--session", fmt.Sprint("s", s), "--nats-url", server.URL, "--partitions", "2"}
		if code := run(t.Context(), terminal{in: strings.NewReader(in.String()), out: io.Discard, err: io.Discard}, args); code != exitOK {
			t.Fatalf("publish: exit code %d", code)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // mixed lines may be fewer than there are records
	defer cancel()
	out := &lineCount{want: sessions * (each + 2), ended: cancel} // run_started and stream_end of each
	args := []string{"firehose", "--from-start", "--nats-url", server.URL, "--partitions", "2"}
	if code := run(ctx, terminal{in: strings.NewReader(""), out: out, err: io.Discard}, args); code != exitOK {
		t.Fatalf("firehose: exit code %d", code)
	}
	for line := range strings.Lines(out.text.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("invalid JSON: %.200s", line)
		}
	}
}
