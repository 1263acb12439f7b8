package topology

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// Ensure creates everything. Called again, also after a restart of the server, it finds everything as required, and so does Check.
func TestEnsureTwice(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	cfg := Config{
		Layout: subjects.Layout{Prefix: "acme.prod", Partitions: 3},
		Log:    Limits{MaxBytes: 1 << 30}, Snapshots: Limits{MaxBytes: 1 << 30}, Objects: Limits{MaxBytes: 1 << 30},
	}
	for range 2 {
		if err := Ensure(t.Context(), js, cfg); err != nil {
			t.Fatalf("Ensure: %v", err)
		}
		if err := Check(t.Context(), js, cfg); err != nil {
			t.Fatalf("Verify: %v", err)
		}
	}
	srv.Restart(t)
	natstest.Eventually(t, "Ensure after a restart", func(ctx context.Context) error { return Ensure(ctx, js, cfg) })
}

// Verify creates nothing and reports what is missing.
func TestVerifyOnAnEmptyServer(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	err := Check(t.Context(), js, Config{})
	want := "TR_CHUNKS_0: is missing, want a stream that listens on tr.chunks.0.*.*.*; run `tailrace setup`\n" +
		"TR_COMMANDS: is missing, want a stream that listens on tr.commands.*.*.*; run `tailrace setup`\n" +
		"TR_DEADLINES: is missing, want a stream that listens on tr.deadlines.*.*.*.*.*.*; run `tailrace setup`\n" +
		"KV_TR_INBOX: is missing, want a stream that listens on $KV.TR_INBOX.>; run `tailrace setup`\n" +
		"KV_TR_CREDENTIALS: is missing, want a stream that listens on $KV.TR_CREDENTIALS.>; run `tailrace setup`\n" +
		"KV_TR_USAGE: is missing, want a stream that listens on $KV.TR_USAGE.>; run `tailrace setup`\n" +
		"KV_TR_SNAPSHOTS: is missing, want a stream that listens on $KV.TR_SNAPSHOTS.>; run `tailrace setup`\n" +
		"OBJ_TR_OBJECTS: is missing, want a stream that listens on $O.TR_OBJECTS.C.>; run `tailrace setup`\n" +
		"TR_DEADLETTERS: is missing, want a stream that listens on tr.deadletters.*.*.*.*; run `tailrace setup`\n" +
		"TR_AUDIT: is missing, want a stream that listens on tr.audit.*.*.*; run `tailrace setup`"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	wantStreams(t, js)
}

// CheckEach reports one stream that differs and one that is missing, and every other one as right. It creates nothing. After its deadline it reports nothing.
func TestCheckEach(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	cfg := Config{Layout: subjects.Layout{Partitions: 2}}
	if err := Ensure(t.Context(), js, cfg); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "TR_COMMANDS"); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "TR_CHUNKS_1")
	if err != nil {
		t.Fatal(err)
	}
	edited := stream.CachedInfo().Config
	edited.AllowDirect = false
	if _, err := js.UpdateStream(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	check := func(ctx context.Context) map[string]error {
		t.Helper()
		var mu sync.Mutex // guards states
		states := make(map[string]error)
		if err := CheckEach(ctx, js, cfg, func(stream string, err error) {
			mu.Lock()
			defer mu.Unlock()
			states[stream] = err
		}); err != nil {
			t.Error(err)
		}
		return states
	}
	states := check(t.Context())
	for stream, want := range map[string]string{
		"TR_CHUNKS_0": "", "TR_CHUNKS_1": "direct get is off, want on", "TR_COMMANDS": "is missing", "TR_DEADLINES": "", "KV_TR_INBOX": "", "KV_TR_CREDENTIALS": "",
		"KV_TR_USAGE": "", "KV_TR_SNAPSHOTS": "", "KV_TR_SNAPSHOTS_1": "", "OBJ_TR_OBJECTS": "", "TR_DEADLETTERS": "", "TR_AUDIT": "",
	} {
		err, reported := states[stream]
		_, different := errors.AsType[*DiffError](err)
		if !reported || different != (want != "") || different && !strings.Contains(err.Error(), want) || !different && err != nil {
			t.Errorf("%s: %v (reported %t), want %q", stream, err, reported, want)
		}
		delete(states, stream)
	}
	if len(states) > 0 {
		t.Errorf("also reported: %v", states)
	}
	if _, err := js.Stream(t.Context(), "TR_COMMANDS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the missing stream: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if states := check(ended); len(states) > 0 {
		t.Errorf("after its end: %v", states)
	}
}

// wantStreams checks that exactly these streams exist.
func wantStreams(t *testing.T, js jetstream.JetStream, want ...string) {
	t.Helper()
	list := js.StreamNames(t.Context())
	var got []string
	for name := range list.Name() {
		got = append(got, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("streams %v, want %v", got, want)
	}
}

// Ensure may be called concurrently by several processes.
func TestEnsureAtOnce(t *testing.T) {
	srv := natstest.Start(t)
	var all sync.WaitGroup
	for range 8 {
		js := srv.JetStream(t)
		all.Go(func() {
			if err := Ensure(t.Context(), js, Config{Layout: subjects.Layout{Partitions: 4}}); err != nil {
				t.Errorf("Ensure: %v", err)
			}
		})
	}
	all.Wait()
}

// Two processes with different limits start together: the streams have the limits of one of them, and the other one finds the difference.
func TestEnsureAtOnceAndDifferently(t *testing.T) {
	srv := natstest.Start(t)
	cfgs := []Config{{Log: Limits{MaxAge: time.Hour}}, {Log: Limits{MaxAge: 2 * time.Hour}}}
	var all sync.WaitGroup
	for _, cfg := range cfgs {
		js := srv.JetStream(t)
		all.Go(func() {
			if err := Ensure(t.Context(), js, cfg); err != nil {
				t.Errorf("Ensure: %v", err)
			}
		})
	}
	all.Wait()
	js, different := srv.JetStream(t), 0
	for _, cfg := range cfgs {
		diffs, err := Differences(t.Context(), js, cfg)
		if err != nil {
			t.Fatal(err)
		}
		different += len(diffs)
	}
	if different != 1 {
		t.Errorf("%d differences, want 1", different)
	}
}

// A process crashed between two streams: the next one creates the rest.
func TestEnsureAfterAnInterruptedOne(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	cfg := Config{Layout: subjects.Layout{Partitions: 3}}
	if _, err := js.CreateStream(t.Context(), cfg.withDefaults().chunks(1).StreamConfig); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), js, cfg); err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	wantStreams(t, js, "KV_TR_CREDENTIALS", "KV_TR_INBOX", "KV_TR_SNAPSHOTS", "KV_TR_SNAPSHOTS_1", "KV_TR_SNAPSHOTS_2", "KV_TR_USAGE", "OBJ_TR_OBJECTS", "TR_AUDIT", "TR_CHUNKS_0", "TR_CHUNKS_1", "TR_CHUNKS_2", "TR_COMMANDS", "TR_DEADLETTERS", "TR_DEADLINES")
}

// The largest chunk with large headers is stored; a message one byte over the limit of the stream is rejected.
func TestTheLargestChunkFits(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, Config{}); err != nil {
		t.Fatal(err)
	}
	msg := nats.NewMsg("tr.chunks.0.acme.s1.s1")
	msg.Data = bytes.Repeat([]byte("x"), MaxChunk)
	msg.Header.Set("ce-type", strings.Repeat("t", 1000))
	msg.Header.Set("tracestate", strings.Repeat("s", HeaderReserve-2000))
	if _, err := js.PublishMsg(t.Context(), msg); err != nil {
		t.Errorf("a chunk of %d bytes with headers: %v", MaxChunk, err)
	}
	_, err := js.Publish(t.Context(), "tr.chunks.0.acme.s1.s1", make([]byte, MaxChunk+HeaderReserve+1))
	if !errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum) {
		t.Errorf("a message over the limit: %v, want ErrStreamMessageExceedsMaximum", err)
	}
}

// Each stream that Ensure creates has an epoch of its own, which stays until the stream is deleted and created again.
func TestEpochs(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	ensured := func() map[string]string {
		t.Helper()
		if err := Ensure(t.Context(), js, Config{}); err != nil {
			t.Fatal(err)
		}
		epochs := make(map[string]string)
		for info := range js.ListStreams(t.Context()).Info() {
			epoch := jsclient.EpochOf(info)
			if info.Config.Metadata[jsclient.EpochKey] != epoch {
				t.Errorf("%s has no epoch in its metadata", info.Config.Name)
			}
			epochs[info.Config.Name] = epoch
		}
		return epochs
	}
	first := ensured()
	distinct := make(map[string]bool)
	for _, epoch := range first {
		distinct[epoch] = true
	}
	if len(distinct) != len((Config{}).withDefaults().streams()) {
		t.Errorf("epochs %v, want one for each stream", first)
	}
	if again := ensured(); !maps.Equal(again, first) {
		t.Errorf("epochs %v, want those of before %v", again, first)
	}
	if err := js.DeleteStream(t.Context(), "TR_COMMANDS"); err != nil {
		t.Fatal(err)
	}
	again := ensured()
	if again["TR_COMMANDS"] == first["TR_COMMANDS"] {
		t.Error("the recreated stream has the epoch of the deleted one")
	}
	if first["TR_COMMANDS"] = again["TR_COMMANDS"]; !maps.Equal(again, first) {
		t.Errorf("epochs %v, want those of before %v", again, first)
	}
}

// The client library accepts the bucket, and Check accepts a bucket that the library created.
func TestBucketMatchesTheLibrary(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, Config{}); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "TR_SNAPSHOTS")
	if err != nil {
		t.Fatal(err)
	}
	rev, err := kv.Create(t.Context(), "h.acme.s1.s1", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Update(t.Context(), "h.acme.s1.s1", []byte("two"), rev); err != nil {
		t.Fatal(err)
	}
	if err := kv.Purge(t.Context(), "h.acme.s1.s1"); err != nil {
		t.Fatal(err)
	}

	js = natstest.Start(t).JetStream(t)
	for _, bucket := range []jetstream.KeyValueConfig{
		{Bucket: "TR_SNAPSHOTS", MaxValueSize: 1 << 20},
		{Bucket: "BRIEF_SNAPSHOTS", MaxValueSize: 1 << 20, MaxBytes: 5 << 20},
	} {
		if _, err := js.CreateKeyValue(t.Context(), bucket); err != nil {
			t.Fatal(err)
		}
		// The library has this option only together with limit markers.
		stream, err := js.Stream(t.Context(), "KV_"+bucket.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.AllowMsgTTL = true
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if err := Ensure(t.Context(), js, Config{}); err != nil {
		t.Errorf("Ensure with a bucket of the library: %v", err)
	}
	brief := Config{Layout: subjects.Layout{Prefix: "brief"}, Snapshots: Limits{MaxBytes: 5 << 20}}
	if err := Ensure(t.Context(), js, brief); err != nil {
		t.Errorf("Ensure with a bucket of the library that has a bound: %v", err)
	}
}

// The log accepts the deletion of single messages and TTLs, and rejects headers with other effects.
func TestLogRejectsHeadersWithSideEffects(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, Config{}); err != nil {
		t.Fatal(err)
	}
	ack, err := js.Publish(t.Context(), "tr.chunks.0.acme.s1.s1", nil, jetstream.WithMsgTTL(time.Hour))
	if err != nil {
		t.Fatalf("with a TTL: %v", err)
	}
	stream, err := js.Stream(t.Context(), ack.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), ack.Sequence); err != nil {
		t.Errorf("delete a message: %v", err)
	}
	for name, value := range map[string]string{"Nats-Rollup": "all", "Nats-Incr": "1", "Nats-Schedule": "@every 1s"} {
		msg := nats.NewMsg("tr.chunks.0.acme.s1.s1")
		msg.Header.Set(name, value)
		if _, err := js.PublishMsg(t.Context(), msg); err == nil {
			t.Errorf("a message with %s: %s is stored", name, value)
		}
	}
	for _, subject := range []string{"tr.chunks.0", "tr.chunks.0.a.b", "tr.chunks.0.a.b.c.d", "tr.chunks.1.a.b.c"} {
		if _, err := js.Publish(t.Context(), subject, nil, jetstream.WithRetryAttempts(0)); !errors.Is(err, jetstream.ErrNoStreamResponse) {
			t.Errorf("publish to %s: %v, want no stream to take it", subject, err)
		}
	}
}
