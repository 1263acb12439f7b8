package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// printedRange is the output of a firehose that has ended.
type printedRange struct {
	records []string // session and ordinal
	stored  []time.Time
	gaps    int
	end     string
}

// firehoseRange runs a firehose to its end.
func firehoseRange(t *testing.T, server *natstest.Server, partitions int, args ...string) (got printedRange) {
	t.Helper()
	code, out, errs := runCommand(t, "", append([]string{"firehose", "--nats-url", server.URL, "--partitions", fmt.Sprint(partitions)}, args...)...)
	if code != exitOK {
		t.Fatalf("%v: exit code %d: %s", args, code, errs)
	}
	for text := range strings.Lines(out) {
		var line struct {
			Session  string          `json:"session"`
			Ordinal  int             `json:"ordinal"`
			StoredAt time.Time       `json:"storedAt"`
			Gap      json.RawMessage `json:"gap"`
			End      struct {
				Position string `json:"position"`
			} `json:"end"`
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil || got.end != "" {
			t.Fatalf("line %s after the end %q: %v", text, got.end, err)
		}
		switch {
		case line.Gap != nil:
			got.gaps++
		case line.Session != "":
			got.records, got.stored = append(got.records, fmt.Sprint(line.Session, " ", line.Ordinal)), append(got.stored, line.StoredAt)
		}
		got.end = line.End.Position
	}
	if got.end == "" {
		t.Fatalf("%v: no last line with the position", args)
	}
	return got
}

// startPartitions starts a server with a log of several partitions.
func startPartitions(t *testing.T, n int) *natstest.Server {
	t.Helper()
	server := natstest.Start(t)
	streamtest.Ensure(t, server.JetStream(t), config{Partitions: n}.topology())
	return server
}

// The script of the documents: each part begins after the end of the part before it, and together they have every record once. Partitions without records, and
// parts without any, change nothing.
func TestFirehoseParts(t *testing.T) {
	const partitions = 4
	server := startPartitions(t, partitions)
	var got, want []string
	position := ""
	for part, sessions := range [][]string{nil, {"a"}, {"b", "c", "d", "e"}, nil, {"a2", "b2"}} {
		for _, session := range sessions {
			in := strings.Repeat(`{"type":"custom","agentId":"a","agentType":"t","timestamp":1,"step":0,"eventName":"n","data":1}`+"\n", 40)
			if code, _, errs := runCommand(t, in, "publish", "--session", session, "--nats-url", server.URL, "--partitions", "4"); code != exitOK {
				t.Fatalf("publish: exit code %d: %s", code, errs)
			}
			for ordinal := range 42 {
				want = append(want, fmt.Sprint(session, " ", ordinal+1))
			}
		}
		printed := firehoseRange(t, server, partitions, "--no-follow", "--after", position)
		if n := strings.Count(printed.end, ","); n != partitions-1 || printed.gaps > 0 {
			t.Errorf("part %d ends at %s with %d gaps", part, printed.end, printed.gaps)
		}
		got, position = append(got, printed.records...), printed.end
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
	if one := firehoseRange(t, server, partitions, "--no-follow", "--tenant", "other"); len(one.records) > 0 || one.end != position {
		t.Errorf("a tenant without records has %d, and ends at %s, want %s", len(one.records), one.end, position)
	}
	code, _, errs := runCommand(t, "", "firehose", "--nats-url", server.URL, "--partitions", "4", "--no-follow", "--after", "0.1")
	if code != exitUsage || !strings.Contains(errs, "After has positions for 1 of 4 partitions") {
		t.Errorf("a position of one partition: exit code %d: %s", code, errs)
	}
}

// Times are those of storage: since is inclusive, until is exclusive, and two ranges that meet have every record once.
func TestFirehoseTimes(t *testing.T) {
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "a", 30)
	publishCustom(t, server.URL, "b", 30)
	all := firehoseRange(t, server, 1, "--no-follow")
	if len(all.records) != 60 {
		t.Fatalf("%d records, want 60", len(all.records))
	}
	for _, i := range []int{0, 1, 29, 30, 31, 59} {
		at := all.stored[i]
		first := slices.IndexFunc(all.stored, func(of time.Time) bool { return !of.Before(at) })
		before := firehoseRange(t, server, 1, "--until", at.Format(time.RFC3339Nano))
		after := firehoseRange(t, server, 1, "--no-follow", "--since", at.Format(time.RFC3339Nano))
		if !slices.Equal(before.records, all.records[:first]) || !slices.Equal(after.records, all.records[first:]) {
			t.Errorf("record %d: %d until then and %d since, want %d and %d", i, len(before.records), len(after.records), first, 60-first)
		}
		rest := firehoseRange(t, server, 1, "--no-follow", "--after", before.end)
		if !slices.Equal(rest.records, all.records[first:]) {
			t.Errorf("record %d: %d after %s, want %d", i, len(rest.records), before.end, 60-first)
		}
	}
	if old := firehoseRange(t, server, 1, "--since", "1h", "--until", "30m"); len(old.records) > 0 {
		t.Errorf("%d records of an hour ago", len(old.records))
	}
	if recent := firehoseRange(t, server, 1, "--since", "1h", "--until", "0s"); len(recent.records) != 60 {
		t.Errorf("%d records of the last hour, want 60", len(recent.records))
	}
	code, _, errs := runCommand(t, "", "firehose", "--nats-url", server.URL, "--until", time.Now().Add(time.Hour).Format(time.RFC3339))
	if code != exitError || !strings.Contains(errs, "after the present") {
		t.Errorf("until the future: exit code %d: %s", code, errs)
	}
}

// A position is valid in its log only; records that are gone after it are a gap, and what is left of the log is printed.
func TestFirehoseAfterAnotherLog(t *testing.T) {
	server := streamtest.Start(t)
	js := server.JetStream(t)
	publishCustom(t, server.URL, "a", 20)
	all := firehoseRange(t, server, 1, "--no-follow")
	epoch, rest, _ := strings.Cut(all.end, ":")
	_, anchor, _ := strings.Cut(rest, "-")
	for name, position := range map[string]string{
		"of another epoch":  "abcdefghijklmnop:" + rest,
		"of another record": epoch + ":0.10-" + anchor[:len(anchor)-1] + "zz",
		"beyond the end":    "0.2000",
	} {
		code, out, errs := runCommand(t, "", "firehose", "--nats-url", server.URL, "--no-follow", "--after", position)
		if code != exitError || !strings.Contains(errs, "the log is not the one of the position "+position) || out != "" {
			t.Errorf("%s: exit code %d: %s %s", name, code, errs, out)
		}
	}
	middle := firehoseRange(t, server, 1, "--no-follow", "--after", epoch+":0.10")
	if len(middle.records) != 10 || middle.end != all.end {
		t.Errorf("%d records after 10, the end is %s", len(middle.records), middle.end)
	}
	stream, err := js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 15; seq++ {
		if err := stream.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	after := firehoseRange(t, server, 1, "--no-follow", "--after", epoch+":0.10")
	if len(after.records) != 5 || after.gaps != 1 || after.end != all.end {
		t.Errorf("after a loss: %d records, %d gaps, the end is %s", len(after.records), after.gaps, after.end)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty := firehoseRange(t, server, 1, "--no-follow", "--after", all.end)
	if len(empty.records) > 0 || empty.gaps > 0 || empty.end != all.end {
		t.Errorf("an empty log: %d records, %d gaps, the end is %s, want %s", len(empty.records), empty.gaps, empty.end, all.end)
	}
}

// Without a range the last line comes after a signal, and has the position for the next one.
func TestFirehoseEndsAtASignal(t *testing.T) {
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "a", 20)
	p := startProcess(t, "firehose", "--from-start", "--nats-url", server.URL)
	natstest.Eventually(t, "the lines", func(context.Context) error {
		if n := strings.Count(p.out.String(), "\n"); n < 20 {
			return errors.New("not all")
		}
		return nil
	})
	p.end()
	at := p.await(t, `\{"end":\{"position":"([^"]+)"\}\}\n$`)
	publishCustom(t, server.URL, "b", 10)
	if next := firehoseRange(t, server, 1, "--no-follow", "--after", at); len(next.records) != 10 {
		t.Errorf("%d records, want those of the second session", len(next.records))
	}
}

// An event of --format cloudevents has the attributes of the message, and readers of events accept it.
func TestFirehoseCloudEvents(t *testing.T) {
	server := streamtest.Start(t)
	publishCustom(t, server.URL, "chat:1", 10)
	_, out, _ := runCommand(t, "", "firehose", "--nats-url", server.URL, "--no-follow", "--format", "cloudevents")
	s := chunk.RootSession("default", "chat:1")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 11 {
		t.Fatalf("%d lines, want 10 events and the end", len(lines))
	}
	stream, err := server.JetStream(t).Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines[:10] {
		rec, err := codec.Decode(codec.Stored{Session: s, Seq: chunk.Seq(i + 1), Header: map[string][]string{"content-type": {"application/cloudevents+json"}}, Data: []byte(line)})
		if err != nil || rec.Ordinal != chunk.Ordinal(i+1) {
			t.Fatalf("%s: %v", line, err)
		}
		m, err := stream.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"specversion", "id", "source", "type", "time", "datacontenttype"} {
			if event[name] != m.Header.Get("ce-"+name) {
				t.Errorf("event %d: %s is %v, want %q", i, name, event[name], m.Header.Get("ce-"+name))
			}
		}
		if !bytes.Equal(rec.Data, m.Data) || event["sequence"] != fmt.Sprint(i+1) || event["partition"] != 0.0 || event["streamepoch"] == "" || event["position"] == "" {
			t.Errorf("event %d is %s", i, line)
		}
	}
}
