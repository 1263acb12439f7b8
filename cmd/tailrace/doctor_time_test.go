package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
)

// A clock that differs by more than a second, whatever the response took, is a warning for each server. One that is right is reported once.
func TestDoctorComparesClocks(t *testing.T) {
	asked := time.Unix(1_700_000_000, 0)
	answered := asked.Add(10 * time.Second)
	for _, tt := range []struct {
		server time.Time
		want   string
	}{
		{asked, ""},
		{answered, ""},
		{asked.Add(-time.Second), ""},
		{answered.Add(time.Second), ""},
		{asked.Add(-1500 * time.Millisecond), "differs by -1.5s"},
		{answered.Add(time.Hour), "differs by 1h0m0s"},
	} {
		var out bytes.Buffer
		d := &doctor{app: &app{}, out: &out, clockShown: true}
		d.checkClock(&jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "TR_CHUNKS_0"}, TimeStamp: tt.server}, asked, answered)
		if text := out.String(); (text == "") != (tt.want == "") || !strings.Contains(text, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.server.Sub(asked), text, tt.want)
		}
	}
	var out bytes.Buffer
	d := &doctor{app: &app{}, out: &out}
	for range 2 {
		d.checkClock(&jetstream.StreamInfo{TimeStamp: asked}, asked, answered)
	}
	if n := strings.Count(out.String(), "clock"); n != 1 {
		t.Errorf("a right clock is reported %d times: %s", n, out.String())
	}
}

// A record that no snapshot contains for half of the retention is a warning.
func TestDoctorWarnsOfUnsavedRecords(t *testing.T) {
	server := natstest.Start(t)
	js := server.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateConsumer(t.Context(), "TR_CHUNKS_0", jetstream.ConsumerConfig{Durable: jssnapshots.Durable, AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "tr.chunks.0.acme.s1.s1", nil); err != nil {
		t.Fatal(err)
	}
	report := func(retention time.Duration) string {
		stream, err := js.Stream(t.Context(), "TR_CHUNKS_0")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		d := &doctor{app: &app{js: js, cfg: config{Partitions: 1, MaxAge: retention}}, api: jsclient.New(js), out: &out}
		d.checkDurables(t.Context(), stream)
		return out.String()
	}
	natstest.Eventually(t, "the warning", func(context.Context) error {
		if text := report(2 * time.Millisecond); !strings.Contains(text, "warning  lag         TR_CHUNKS_0       first unsaved record is ") {
			return errors.New(text)
		}
		return nil
	})
	if text := report(72 * time.Hour); !strings.Contains(text, "ok       lag") {
		t.Errorf("with a longer retention: %s", text)
	}
	if text := report(0); strings.Contains(text, "lag") {
		t.Errorf("without a limit of age: %s", text)
	}
}
