package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// Every setting of the log that differs is reported with both values and the remedy. If it breaks a guarantee, nothing is created.
func TestDifferences(t *testing.T) {
	edit := "; change it with `nats stream edit TR_CHUNKS_0`"
	recreate := "; the server does not change that in place: delete the stream when its data is no longer needed"
	tests := map[string]struct {
		change func(*jetstream.StreamConfig)
		want   string
	}{
		"max age": {
			func(c *jetstream.StreamConfig) { c.MaxAge = 24 * time.Hour },
			"max age is 24h0m0s, want 72h0m0s" + edit + ", or set Log.MaxAge to 24h0m0s",
		},
		"unlimited age": {
			func(c *jetstream.StreamConfig) { c.MaxAge = 0 },
			"max age is none, want 72h0m0s" + edit + "",
		},
		"subjects": {
			func(c *jetstream.StreamConfig) { c.Subjects = []string{"tr.chunks.0.>", "x"} },
			"the list of subjects is tr.chunks.0.> x, want tr.chunks.0.*.*.*" + edit + ", or choose another Layout",
		},
		"memory": {
			func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
			"storage is Memory, want File" + recreate + ", or set Storage to Memory",
		},
		"max bytes": {
			func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 },
			"max bytes is 1048576, want unlimited" + edit + ", or set Log.MaxBytes to 1048576",
		},
		"max message size": {
			func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 },
			"max message size is 1000, want 540672" + edit + ", or set MaxMsgSize to 1000",
		},
		"max messages": {
			func(c *jetstream.StreamConfig) { c.MaxMsgs = 9 },
			"max messages is 9, want unlimited" + edit,
		},
		"max messages per subject": {
			func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 9 },
			"max messages per subject is 9, want unlimited" + edit,
		},
		"max consumers": {
			func(c *jetstream.StreamConfig) { c.MaxConsumers = 0 },
			"max consumers is unlimited, want 4096" + edit + "",
		},
		"discard":          {func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew }, "what is discarded when full is DiscardNew, want DiscardOld" + edit},
		"duplicate window": {func(c *jetstream.StreamConfig) { c.Duplicates = 0 }, "duplicate window is 2m0s, want 1s" + edit},
		"compression":      {func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression }, "compression is S2, want None" + edit},
		"direct get":       {func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "direct get is off, want on" + edit},
		"message TTL":      {func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, "message TTL is off, want on" + edit},
		"roll-ups":         {func(c *jetstream.StreamConfig) { c.AllowRollup = true }, "roll-up headers is on, want off" + edit},
		"deny delete":      {func(c *jetstream.StreamConfig) { c.DenyDelete = true }, "deny delete is on, want off" + recreate},
		"deny purge":       {func(c *jetstream.StreamConfig) { c.DenyPurge = true }, "deny purge is on, want off" + recreate},
		"no ack":           {func(c *jetstream.StreamConfig) { c.NoAck = true }, "acknowledgement is off, want on" + edit},
		"interest":         {func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }, "retention is Interest, want Limits" + recreate},
		"persist mode": {func(c *jetstream.StreamConfig) {
			c.PersistMode, c.AllowAtomicPublish = jetstream.AsyncPersistMode, false
		}, "persist mode is Async, want Default" + recreate},
		"counters":       {func(c *jetstream.StreamConfig) { c.AllowMsgCounter, c.AllowMsgTTL = true, false }, "message counters is on, want off" + recreate},
		"atomic batches": {func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false }, "atomic batches is off, want on" + edit},
		"fast batches":   {func(c *jetstream.StreamConfig) { c.AllowBatchPublish = true }, "fast batches is on, want off" + edit},
		"schedules": {
			func(c *jetstream.StreamConfig) { c.AllowMsgSchedules, c.AllowRollup = true, true },
			"message schedules is on, want off" + recreate,
		},
		"delete markers": {
			func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL, c.AllowRollup = time.Hour, true },
			"delete markers is 1h0m0s, want none" + edit,
		},
		"discard new per subject": {
			func(c *jetstream.StreamConfig) {
				c.Discard, c.DiscardNewPerSubject, c.MaxMsgsPerSubject = jetstream.DiscardNew, true, 9
			},
			"discard new per subject is on, want off" + edit,
		},
		"republish": {
			func(c *jetstream.StreamConfig) {
				c.RePublish = &jetstream.RePublish{Source: ">", Destination: "live.>"}
			},
			"republish is > to live.>, want none" + edit,
		},
		"subject transform": {
			func(c *jetstream.StreamConfig) {
				c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "y.>"}
			},
			"subject transform is > to y.>, want none" + edit,
		},
		"sources": {
			func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "OTHER"}} },
			"sources is OTHER, want none" + edit,
		},
		"mirror": {
			func(c *jetstream.StreamConfig) {
				*c = jetstream.StreamConfig{Name: c.Name, Mirror: &jetstream.StreamSource{Name: "OTHER"}}
			},
			"mirror is OTHER, want none" + edit,
		},
		"consumer limits": {
			func(c *jetstream.StreamConfig) { c.ConsumerLimits.MaxAckPending = 5 },
			"consumer limits is inactive none, pending 5, want none" + edit,
		},
		"made by hand": {
			func(c *jetstream.StreamConfig) { c.Metadata = nil },
			"number of partitions is none, want 1; if it was created for 1, record that with `nats stream edit TR_CHUNKS_0 --metadata tailrace.partitions=1`",
		},
		"another number of partitions": {
			func(c *jetstream.StreamConfig) { c.Metadata[partitionsKey] = "4" },
			"number of partitions is 4, want 1; set Layout.Partitions (TAILRACE_PARTITIONS) to 4: the number is fixed when the streams are created",
		},
	}
	cfg := Config{Log: Limits{MaxAge: 72 * time.Hour, MaxBytes: Off}}
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}}); err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			stream := Config{}.withDefaults().chunks(0).StreamConfig
			test.change(&stream)
			if _, err := js.CreateStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			if breaks := wantLine(t, js, cfg, "TR_CHUNKS_0: "+test.want); breaks {
				wantDifference(t, Ensure(t.Context(), js, cfg), "TR_CHUNKS_0: "+test.want)
				wantDifference(t, Check(t.Context(), js, cfg), "TR_CHUNKS_0: "+test.want)
				wantStreams(t, js, "OTHER", stream.Name)
			}
			if err := js.DeleteStream(t.Context(), stream.Name); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("sealed", func(t *testing.T) {
		stream := Config{}.withDefaults().chunks(0).StreamConfig
		if _, err := js.CreateStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		stream.Sealed = true
		if _, err := js.UpdateStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		wantDifference(t, Ensure(t.Context(), js, Config{}), "TR_CHUNKS_0: sealed is on, want off"+recreate)
	})
}

// wantLine checks that the differences have a line, and reports whether it is of class Breaks.
func wantLine(t *testing.T, js jetstream.JetStream, cfg Config, want string) (breaks bool) {
	t.Helper()
	diffs, err := Differences(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range diffs {
		line := d
		if line.Risk = ""; line.String() == want {
			return d.Class == Breaks
		}
	}
	t.Errorf("got\n%v\nwant the line\n%s", diffs, want)
	return false
}

// wantDifference checks that err has a line.
func wantDifference(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", want)
	}
	for line := range strings.Lines(err.Error()) {
		if line, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "; otherwise "); line == want {
			return
		}
	}
	t.Errorf("got\n%v\nwant the line\n%s", err, want)
}

// The fields of the other two streams have their own names.
func TestDifferencesOfQueueAndBucket(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, Config{}); err != nil {
		t.Fatal(err)
	}
	other := Config{
		Commands: Limits{MaxAge: time.Hour}, Inbox: Limits{MaxAge: 24 * time.Hour, MaxBytes: 7 << 20}, Snapshots: Limits{MaxAge: 100 * time.Hour, MaxBytes: 5 << 20}, Objects: Limits{MaxBytes: 6 << 20}, MaxSnapshot: 1 << 19,
	}
	for _, want := range []string{
		"TR_COMMANDS: max age is 24h0m0s, want 1h0m0s; change it with `nats stream edit TR_COMMANDS`, or set Commands.MaxAge to 24h0m0s",
		"KV_TR_INBOX: max age is 720h0m0s, want 24h0m0s; change it with `nats stream edit KV_TR_INBOX`, or set Inbox.MaxAge to 720h0m0s",
		"KV_TR_INBOX: max bytes is unlimited, want 7340032; change it with `nats stream edit KV_TR_INBOX`, or set Inbox.MaxBytes to 0",
		"OBJ_TR_OBJECTS: max bytes is unlimited, want 6291456; change it with `nats stream edit OBJ_TR_OBJECTS`, or set Objects.MaxBytes to 0",
		"KV_TR_SNAPSHOTS: max age of snapshots is 2160h0m0s, want 100h0m0s; change it with `nats stream edit -i KV_TR_SNAPSHOTS` in the metadata, tailrace.max-age",
		"KV_TR_SNAPSHOTS: max bytes is unlimited, want 5242880; change it with `nats stream edit KV_TR_SNAPSHOTS`, or set Snapshots.MaxBytes to 0",
		"KV_TR_SNAPSHOTS: max message size is 1048576, want 524288; change it with `nats stream edit KV_TR_SNAPSHOTS`, or set MaxSnapshot to 1048576",
	} {
		wantLine(t, js, other, want)
	}
}

// Sizes and ages that an operator has edited are no differences for a program that sets none, unless a guarantee breaks.
func TestEditedSizesAndAges(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, Config{Commands: Limits{MaxAge: 50 * time.Hour}, Snapshots: Limits{MaxAge: Off}, Audit: Limits{MaxBytes: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	edit := func(name string, change func(*jetstream.StreamConfig)) {
		t.Helper()
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		change(&cfg)
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	edit("TR_CHUNKS_0", func(c *jetstream.StreamConfig) { c.MaxAge, c.MaxBytes = 24*time.Hour, 1<<30 })
	edit("TR_COMMANDS", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
	edit("TR_DEADLINES", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 })
	edit("KV_TR_SNAPSHOTS", func(c *jetstream.StreamConfig) { c.Metadata[jsclient.MaxAgeKey] = "200h" })
	if diffs, err := Differences(t.Context(), js, Config{}); err != nil || len(diffs) > 0 {
		t.Errorf("differences %v, %v", diffs, err)
	}
	if diffs, err := Differences(t.Context(), js, Config{Snapshots: Limits{MaxAge: Off}}); err != nil || len(diffs) != 1 || diffs[0].Class != Accepted || diffs[0].Want != "0s" {
		t.Errorf("differences %v, %v", diffs, err)
	}
	edit("TR_CHUNKS_0", func(c *jetstream.StreamConfig) { c.MaxAge = 2 * time.Second })
	wantDifference(t, Check(t.Context(), js, Config{}), "TR_CHUNKS_0: max age is 2s, want 72h0m0s; change it with `nats stream edit TR_CHUNKS_0`, or set Log.MaxAge to 2s")
}

// A stream of deadlines without required settings, and an inbox whose hints go to another subject or whose replicas serve reads.
func TestDifferencesOfDeadlinesAndInbox(t *testing.T) {
	cfg := Config{}.withDefaults()
	deadlines, inbox := cfg.deadlines().StreamConfig, cfg.inbox().StreamConfig
	deadlines.AllowMsgSchedules, deadlines.MaxMsgsPerSubject = false, 2
	inbox.AllowDirect, inbox.RePublish = true, nil
	js := natstest.Start(t).JetStream(t)
	for _, stream := range []jetstream.StreamConfig{deadlines, inbox} {
		if _, err := js.CreateStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	err := Ensure(t.Context(), js, Config{})
	for _, want := range []string{
		"TR_DEADLINES: message schedules is off, want on; change it with `nats stream edit TR_DEADLINES`",
		"TR_DEADLINES: max messages per subject is 2, want 1; change it with `nats stream edit TR_DEADLINES`",
		"KV_TR_INBOX: direct get is on, want off; change it with `nats stream edit KV_TR_INBOX`",
		"KV_TR_INBOX: republish is none, want $KV.TR_INBOX.> to tr.inbox.>; change it with `nats stream edit KV_TR_INBOX`",
	} {
		wantDifference(t, err, want)
	}
}

// TestDifferencesThatDoNotMatter checks the settings that an operator may change: description, metadata, first sequence.
func TestDifferencesThatDoNotMatter(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	stream := Config{}.withDefaults().chunks(0).StreamConfig
	stream.Description = "created in 2019"
	stream.Metadata["team"] = "agents"
	stream.FirstSeq = 1000
	if _, err := js.CreateStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), js, Config{}); err != nil {
		t.Errorf("Ensure: %v", err)
	}
}

// The number of partitions is fixed: another one is refused, by setup and by all roles, with both numbers, and nothing is created.
func TestChangedPartitions(t *testing.T) {
	const created = 4
	of := func(n int) Config { return Config{Layout: subjects.Layout{Partitions: n}} }
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, of(created)); err != nil {
		t.Fatal(err)
	}
	streams, err := Streams(of(created))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, stream := range streams {
		names = append(names, stream.Name)
	}
	slices.Sort(names)
	for n, name := range map[int]string{8: "more", 2: "fewer"} {
		t.Run(name, func(t *testing.T) {
			for _, open := range []func(context.Context, jetstream.JetStream, Config) error{Ensure, Check} {
				err := open(t.Context(), js, of(n))
				for p := range min(n, created) {
					wantDifference(t, err, fmt.Sprintf("TR_CHUNKS_%d: number of partitions is 4, want %d; set Layout.Partitions (TAILRACE_PARTITIONS) to 4: "+
						"the number is fixed when the streams are created", p, n))
				}
				for p := n; p < created; p++ {
					wantDifference(t, err, fmt.Sprintf("TR_CHUNKS_%d: listens on tr.chunks.*.*.*.*, want partitions 0 to %d only; "+
						"set Layout.Partitions to more than %d, or delete the stream if it has no session", p, n-1, p))
				}
			}
			wantStreams(t, js, names...)
		})
	}
	if err := Check(t.Context(), js, of(created)); err != nil {
		t.Error(err)
	}
}

// A stream of another program that takes subjects of the layout is reported.
func TestStreamOfAnotherProgramOnTheSubjects(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{"tr.>"}}); err != nil {
		t.Fatal(err)
	}
	err := Ensure(t.Context(), js, Config{})
	wantDifference(t, err, "AUDIT: listens on tr.chunks.*.*.*.*, want no other stream there; delete it or take these subjects from it")
	wantDifference(t, err, "AUDIT: listens on tr.commands.*.*.*, want no other stream there; delete it or take these subjects from it")
	wantStreams(t, js, "AUDIT")
}

// Two layouts whose streams would have the same names.
func TestTwoLayoutsOneName(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, Config{Layout: subjects.Layout{Prefix: "a.b"}}); err != nil {
		t.Fatal(err)
	}
	err := Ensure(t.Context(), js, Config{Layout: subjects.Layout{Prefix: "a_b"}})
	wantDifference(t, err, "A_B_CHUNKS_0: the list of subjects is a.b.chunks.0.*.*.*, want a_b.chunks.0.*.*.*; change it with `nats stream edit A_B_CHUNKS_0`, or choose another Layout")
}

// allSet returns a Config in which all sizes and ages are set, to the defaults.
func allSet() Config {
	cfg := Config{}.withDefaults()
	cfg.unset = nil
	return cfg
}

// An operator may bound and tune a stream: only what breaks a guarantee is an error.
func TestClasses(t *testing.T) {
	log, commands, deadlines := "TR_CHUNKS_0", "TR_COMMANDS", "TR_DEADLINES"
	inbox, snapshots, objects, credentials, usage := "KV_TR_INBOX", "KV_TR_SNAPSHOTS", "OBJ_TR_OBJECTS", "KV_TR_CREDENTIALS", "KV_TR_USAGE"
	tests := map[string]struct {
		stream string
		change func(*jetstream.StreamConfig)
		want   Class
	}{
		"log bounded by size":     {log, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 }, Stricter},
		"log bounded by messages": {log, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 << 30 }, Stricter},
		"log bounded by session":  {log, func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 << 20 }, Stricter},
		"log refuses when full":   {log, func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 1<<30, jetstream.DiscardNew }, Stricter},
		"log of a shorter time":   {log, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, Stricter},
		"log of some seconds":     {log, func(c *jetstream.StreamConfig) { c.MaxAge = 2 * time.Second }, Breaks},
		"log of a longer time":    {log, func(c *jetstream.StreamConfig) { c.MaxAge = 1000 * time.Hour }, Accepted},
		"log without an age":      {log, func(c *jetstream.StreamConfig) { c.MaxAge = 0 }, Accepted},
		"log of small messages":   {log, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 64 << 10 }, Stricter},
		"log of tiny messages":    {log, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }, Breaks},
		"log of large messages":   {log, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 8 << 20 }, Accepted},
		"fewer consumers":         {log, func(c *jetstream.StreamConfig) { c.MaxConsumers = 100 }, Stricter},
		"any number of consumers": {log, func(c *jetstream.StreamConfig) { c.MaxConsumers = -1 }, Accepted},
		"records one by one":      {log, func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false }, Accepted},
		"commands in batches":     {commands, func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true }, Breaks},
		"compression":             {log, func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression }, Accepted},
		"longer duplicate window": {log, func(c *jetstream.StreamConfig) { c.Duplicates = time.Minute }, Accepted},
		"republished elsewhere": {log, func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: ">", Destination: "live.>"}
		}, Accepted},
		"republished for edges": {log, func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: "tr.chunks.0.>", Destination: "tr.live.0.>"}
		}, Accepted},
		"republished for edges without bodies": {log, func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: "tr.chunks.0.>", Destination: "tr.live.0.>", HeadersOnly: true}
		}, Breaks},
		"republished into the log": {log, func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: "tr.chunks.0.>", Destination: "tr.commands.>"}
		}, Breaks},
		"memory":                         {log, func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, Breaks},
		"roll-ups":                       {log, func(c *jetstream.StreamConfig) { c.AllowRollup = true }, Breaks},
		"revocations that expire early":  {credentials, func(c *jetstream.StreamConfig) { c.MaxAge = 24 * time.Hour }, Breaks},
		"bounded credentials":            {credentials, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, Stricter},
		"tickets from any replica":       {credentials, func(c *jetstream.StreamConfig) { c.AllowDirect = true }, Breaks},
		"usage that expires early":       {usage, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, Breaks},
		"usage from any replica":         {usage, func(c *jetstream.StreamConfig) { c.AllowDirect = true }, Breaks},
		"bounded usage":                  {usage, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, Stricter},
		"bounded commands":               {commands, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 }, Stricter},
		"commands that are dropped":      {commands, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, Breaks},
		"commands that expire early":     {commands, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, Stricter},
		"commands that stay":             {commands, func(c *jetstream.StreamConfig) { c.MaxAge = 1000 * time.Hour }, Accepted},
		"short window of commands":       {commands, func(c *jetstream.StreamConfig) { c.Duplicates = time.Second }, Breaks},
		"bounded deadlines":              {deadlines, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 }, Stricter},
		"deadlines that are dropped":     {deadlines, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 }, Breaks},
		"deadlines that expire early":    {deadlines, func(c *jetstream.StreamConfig) { c.MaxAge = 24 * time.Hour }, Breaks},
		"bounded inbox":                  {inbox, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 }, Stricter},
		"answers that expire early":      {inbox, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, Stricter},
		"bounded snapshots":              {snapshots, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 }, Stricter},
		"snapshots that expire":          {snapshots, func(c *jetstream.StreamConfig) { c.MaxAge = 1000 * time.Hour }, Breaks},
		"small snapshots":                {snapshots, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 64 << 10 }, Breaks},
		"bounded objects":                {objects, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 }, Stricter},
		"objects that expire":            {objects, func(c *jetstream.StreamConfig) { c.MaxAge = 1000 * time.Hour }, Breaks},
		"description, metadata, cluster": {log, func(c *jetstream.StreamConfig) { c.Description = "x"; c.Metadata["team"] = "a" }, -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, spec := range allSet().streams() {
				if spec.Name != test.stream {
					continue
				}
				got := spec.StreamConfig
				got.Metadata = maps.Clone(got.Metadata)
				test.change(&got)
				diffs := compare(got, spec)
				worst := Class(-1)
				for _, d := range diffs {
					worst = max(worst, d.Class)
					if (d.Class == Breaks) != (d.Risk != "") {
						t.Errorf("%s: class %s with the risk %q", d, d.Class, d.Risk)
					}
				}
				if worst != test.want {
					t.Errorf("class %s, want %s: %v", worst, test.want, diffs)
				}
			}
		})
	}
}

// A limit that an operator sets on a stream does not keep programs from starting, and is reported.
func TestEnsureAcceptsLimits(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, Config{}); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	edited := stream.CachedInfo().Config
	edited.MaxBytes, edited.Compression = 1<<30, jetstream.S2Compression
	if _, err := js.UpdateStream(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	mirror, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "COPY", Mirror: &jetstream.StreamSource{Name: "TR_CHUNKS_0"}})
	if err != nil {
		t.Fatal(err)
	}
	// A server that shuts down while it creates the consumer of a mirror has a goroutine that waits 30 s for the response.
	natstest.Eventually(t, "the consumer of the mirror", func(ctx context.Context) error {
		info, err := mirror.Info(ctx)
		if err == nil && info.Mirror.Active < 0 {
			err = errors.New("the mirror has not been active")
		}
		return err
	})
	for name, check := range map[string]func(context.Context, jetstream.JetStream, Config) error{"Ensure": Ensure, "Check": Check} {
		if err := check(t.Context(), js, Config{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	diffs, err := Differences(t.Context(), js, allSet())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range diffs {
		got = append(got, d.Class.String()+" "+d.Stream+" "+d.Setting)
	}
	if want := []string{"stricter TR_CHUNKS_0 max bytes", "accepted TR_CHUNKS_0 compression"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
