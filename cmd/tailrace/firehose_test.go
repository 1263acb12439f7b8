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

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
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
	server := natstest.Start(t)
	streamtest.Ensure(t, server.JetStream(t), config{Partitions: 2}.topology())
	const sessions, each = 6, 500
	for s := range sessions {
		var in strings.Builder
		for i := range each {
			fmt.Fprintf(&in, `{"type":"custom","agentId":"a","agentType":"t","timestamp":1,"step":0,"eventName":"n","data":%d}`+"\n", i)
		}
		if code, _, errs := runCommand(t, in.String(), "publish", "--session", fmt.Sprint("s", s), "--nats-url", server.URL, "--partitions", "2"); code != exitOK {
			t.Fatalf("publish: exit code %d: %s", code, errs)
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

// Records that are missing in the middle of a session are a line of their own, before the record after them.
func TestFirehosePrintsGaps(t *testing.T) {
	server := streamtest.Start(t)
	in := strings.Repeat(`{"type":"custom","agentId":"a","agentType":"t","timestamp":1,"step":0,"eventName":"n","data":1}`+"\n", 5)
	if code, _, errs := runCommand(t, in, "publish", "--session", "s", "--nats-url", server.URL); code != exitOK {
		t.Fatalf("publish: exit code %d: %s", code, errs)
	}
	stream, err := server.JetStream(t).Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	for _, asJSON := range []bool{true, false} {
		var out bytes.Buffer
		var to firehosePrinter = &firehoseLines{out: &out}
		want := `{"gap":{"partition":0,"from":3,"to":3,"reason":"gap","tenant":"default","root":"s","session":"s","firstOrdinal":3,"lastOrdinal":3}}` + "\n"
		if !asJSON {
			to, want = &firehoseText{textPrinter{out: &out}}, "records missing: sequences 3 to 3 of partition 0 (gap)"
		}
		gap := consumers.Gap{
			From: 3, To: 3, Reason: chunk.TruncatedGap, Session: chunk.RootSession("default", "s"), FirstOrdinal: 3, LastOrdinal: 3,
		}
		if err := to.gap(gap); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := &lineCount{want: 7, ended: cancel} // run_started, five chunks without one, stream_end, the gap
	args := []string{"firehose", "--from-start", "--nats-url", server.URL}
	if code := run(ctx, terminal{in: strings.NewReader(""), out: out, err: io.Discard}, args); code != exitOK {
		t.Fatalf("firehose: exit code %d", code)
	}
	lines := strings.Split(out.text.String(), "\n")
	if !strings.HasPrefix(lines[2], `{"gap":`) {
		t.Errorf("the third line is %.200s, want the gap", lines[2])
	}
}
