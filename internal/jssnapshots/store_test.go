package jssnapshots

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

var s1 = chunk.RootSession("acme", "s1")

func open(t *testing.T, js jetstream.JetStream, layout subjects.Layout) *Store {
	t.Helper()
	streamtest.Ensure(t, js, topology.Config{Layout: layout})
	st, err := New(js, Config{Layout: layout, MaxValueBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func openFor(b *testing.B, js jetstream.JetStream, layout subjects.Layout) *Store {
	b.Helper()
	streamtest.Ensure(b, js, topology.Config{Layout: layout})
	st, err := New(js, Config{Layout: layout})
	if err != nil {
		b.Fatal(err)
	}
	return st
}

// The store in the bucket passes the contract, as the one in memory does.
func TestKeepsTheContract(t *testing.T) {
	for name, partitions := range placements {
		t.Run(name, func(t *testing.T) {
			js := natstest.Start(t).JetStream(t)
			n := 0
			storetest.RunContract(t, func(t *testing.T) projector.Store {
				t.Helper()
				n++
				return open(t, js, subjects.Layout{Prefix: fmt.Sprintf("t%d", n), Partitions: partitions})
			})
		})
	}
}

// The keys are those that package subjects defines: the head, the owner, and each pack of finished messages once, with the generation in its
// number. A truncated record ends a pack, and a message that fills a pack is one. The last message is in the head.
func TestKeys(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	log := storetest.NewLog()
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "q"}}})
	log.Append(t, s1, 1, chunk.TextDelta{Delta: "one"})
	log.Append(t, s1, 1, chunk.StepEnd{})
	log.Append(t, s1, 2, chunk.TextDelta{Delta: "two"})
	if _, ok := log.AppendTruncation(t, s1, 1); !ok {
		t.Fatal("no mark")
	}
	log.Append(t, s1, 2, chunk.TextDelta{Delta: strings.Repeat("two again", 2000)})
	log.Append(t, s1, 3, chunk.TextDelta{Delta: "three"})
	log.Append(t, s1, 3, chunk.StreamEnd{StreamID: "s1"})
	if _, err := st.Save(t.Context(), storetest.Fold(t, log, s1), 0); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "TR_SNAPSHOTS")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const behindTheMark = 5<<24 | 2
	got, want := fmt.Sprint(len(keys), keys), []string{"h.acme.s1.s1", "owner.acme.s1.none", "m.acme.s1.s1.p0", fmt.Sprintf("m.acme.s1.s1.p%d", behindTheMark)}
	for _, key := range want {
		if !strings.Contains(got, key) {
			t.Errorf("no key %s in %s", key, got)
		}
	}
	if len(keys) != len(want) {
		t.Errorf("keys %s, want %v", got, want)
	}
}

// A crash between the messages and the head: the messages are written again with the same content, and the final head counts them.
func TestCrashBeforeTheHead(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	log := storetest.NewLog()
	storetest.NewSessionGenerator(log, s1, 1).Write(t, 3000)
	snap := storetest.Fold(t, log, s1)
	if len(snap.Packs()) < 2 {
		t.Fatalf("%d packs", len(snap.Packs()))
	}
	b, err := st.open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	died := saving{Store: st, b: b, session: s1, life: snap.Created, key: "h.acme.s1.s1"}
	if err := died.savePacks(t.Context(), snap.Packs()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.Load(t.Context(), s1); !errors.Is(err, projector.ErrNoSnapshot) {
		t.Errorf("there is a head: %v", err)
	}
	if _, err := st.Save(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "in the end", storetest.Stored(t, st, s1), snap)
}

// Values of another program under the keys are detected: a malformed head, one of another version or session, a changed message.
func TestValuesOfAnotherProgram(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	log := storetest.NewLog()
	storetest.NewSessionGenerator(log, s1, 2).Write(t, 3000)
	snap := storetest.Fold(t, log, s1)
	if _, err := st.Save(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "TR_SNAPSHOTS")
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, value string) {
		t.Helper()
		if _, err := kv.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	pack := snap.Packs()[0]
	pack = slices.Clone(pack)
	pack[0].Data = []byte(`{"role":"assistant","parts":[]}`)
	put("m.acme.s1.s1.p0", string(appendPack(nil, snap.Created, pack)))
	head, _, err := st.Load(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	data, err := st.Messages(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	if err := fold.From(head).Attach(data); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("a changed message: %v, want ErrInconsistent", err)
	}
	for _, c := range []struct {
		name, value string
		want        error
	}{
		{"no JSON", `{`, projector.ErrCorrupt},
		{"empty", ``, projector.ErrCorrupt},
		{"another session", `{"version":1,"tenant":"acme","root":"s2","session":"s2","status":"ended","run":{"usage":{}},"usage":{},"faults":{}}`, projector.ErrCorrupt},
		{"another version", `{"version":99}`, fold.ErrVersion},
	} {
		put("h.acme.s1.s1", c.value)
		_, revision, err := st.Load(t.Context(), s1)
		if !errors.Is(err, c.want) || revision == 0 {
			t.Errorf("%s: revision %d, %v; want %v", c.name, revision, err, c.want)
		}
		// A save of a new fold may replace it.
		if _, err := st.Save(t.Context(), storetest.Fold(t, log, s1), revision); err != nil {
			t.Errorf("%s: replace it: %v", c.name, err)
		}
	}
}

// A deleted key is like one that never existed.
func TestDeletedHead(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	log := storetest.NewLog()
	storetest.NewSessionGenerator(log, s1, 3).Write(t, 50)
	snap := storetest.Fold(t, log, s1)
	if _, err := st.Save(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "TR_SNAPSHOTS")
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), "h.acme.s1.s1"); err != nil {
		t.Fatal(err)
	}
	if _, revision, err := st.Load(t.Context(), s1); !errors.Is(err, projector.ErrNoSnapshot) || revision != 0 {
		t.Errorf("revision %d, %v", revision, err)
	}
	if _, err := st.Save(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "saved again", storetest.Stored(t, st, s1), snap)
}

// The response to a write is lost. The repetition of an owner stores the same, that of a message finds the same message, that of a head a conflict, and the next load has the head.
func TestLostResponses(t *testing.T) {
	srv := natstest.Start(t)
	open(t, srv.JetStream(t), subjects.Layout{})
	proxy := natstest.StartFaultProxy(t, srv.URL)
	js := natstest.JetStream(t, proxy.URL)
	st := open(t, js, subjects.Layout{})
	lose := func(n int32) (lost *atomic.Int32) { // the responses to the first n writes
		lost = new(atomic.Int32)
		proxy.SetResponseFaults(func(answer []byte) bool {
			return strings.Contains(string(answer), `"stream":"KV_TR_SNAPSHOTS"`) && lost.Add(1) <= n
		})
		return lost
	}
	log := storetest.NewLog()
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r1", Mode: "execute"})
	log.Append(t, s1, 1, chunk.TextDelta{Delta: "one"})
	first := storetest.Fold(t, log, s1)
	lost := lose(1)
	revision, err := st.Save(t.Context(), first, 0)
	if err != nil || lost.Load() < 3 {
		t.Errorf("the response for an owner is lost: %v after %d writes", err, lost.Load())
	}
	log.Append(t, s1, 1, chunk.TextDelta{Delta: "two"})
	first = storetest.Fold(t, log, s1)
	lost = lose(1)
	if _, err := st.Save(t.Context(), first, revision); !errors.Is(err, projector.ErrConflict) || lost.Load() == 0 {
		t.Errorf("the response for a head is lost: %v", err)
	}
	stored, revision, err := st.Load(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "the head", stored, first)
	log.Append(t, s1, 1, chunk.TextDelta{Delta: strings.Repeat("three", 5000)})
	log.Append(t, s1, 1, chunk.StreamEnd{StreamID: "s1"})
	second := storetest.Fold(t, log, s1)
	lost = lose(1)
	if _, err := st.Save(t.Context(), second, revision); err != nil || lost.Load() == 0 || len(second.Packs()) != 1 {
		t.Errorf("the response for a pack is lost: %v", err)
	}
	storetest.Equal(t, "with the pack", storetest.Stored(t, st, s1), second)
}

// Without a bucket every call fails, and a bucket that is created later is used.
func TestNoBucketYet(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st, err := New(js, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.Load(t.Context(), s1); !errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, projector.ErrNoSnapshot) {
		t.Errorf("load: %v", err)
	}
	if _, err := st.Save(t.Context(), fold.New(s1).Snapshot(), 0); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("save: %v", err)
	}
	open(t, js, subjects.Layout{})
	if _, _, err := st.Load(t.Context(), s1); !errors.Is(err, projector.ErrNoSnapshot) {
		t.Errorf("load: %v, want ErrNoSnapshot", err)
	}
}

// Names that are not tokens are rejected before any request to the server.
func TestHostileSessions(t *testing.T) {
	st, err := New(natstest.Start(t).JetStream(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []chunk.Session{{}, chunk.RootSession("acme", "*"), chunk.RootSession("a.b", "x"), {Tenant: ">", Root: "x", ID: "x"}} {
		if _, _, err := st.Load(t.Context(), s); err == nil || errors.Is(err, projector.ErrNoSnapshot) {
			t.Errorf("load %s: %v", s, err)
		}
		if _, err := st.Save(t.Context(), fold.New(s).Snapshot(), 0); err == nil {
			t.Errorf("save %s went through", s)
		}
	}
}
