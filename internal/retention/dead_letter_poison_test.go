package retention

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// poison is one message of another program.
type poison struct {
	name    string
	subject string // "" is that of s1
	header  func(h nats.Header)
	data    string
	takes   bool // it takes the ordinal of a record
	reason  Reason
	sent    nats.Header
}

// envelope returns a header with the attributes of a valid one.
func envelope(o chunk.Ordinal, typ chunk.Type) nats.Header {
	return codec.EncodeJSON(codec.Envelope{Session: s1, Epoch: 1, Ordinal: o}, codec.Header{Type: typ, Timestamp: 1}, nil).Header
}

func contentType(t string) func(nats.Header) {
	return func(h nats.Header) { h["ce-datacontenttype"] = []string{t} }
}

func set(name, value string) func(nats.Header) {
	return func(h nats.Header) { h[name] = []string{value} }
}

func poisons() []poison {
	const record, envelope, subject = ReasonRecord, ReasonEnvelope, ReasonSubject
	deep := `{"type":"text_delta","x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`
	text := `{"type":"text_delta","agentId":"s1","agentType":"t","timestamp":1,"delta":"BAD"}`
	nothing := func(h nats.Header) { clear(h) }
	return []poison{
		// Records by their envelope, whose body is not a chunk.
		{name: "a number for a text", data: `{"type":"text_delta","delta":1}`, takes: true, reason: record},
		{name: "nothing but a type", data: `{"type":"text_delta"}`, takes: true, reason: record},
		{name: "null for everything", data: `{"type":"text_delta","agentId":null,"agentType":null,"timestamp":null,"delta":null}`, takes: true, reason: record},
		{name: "a timestamp beyond the range", data: `{"type":"text_delta","agentId":"s1","agentType":"t","timestamp":1e400,"delta":"BAD"}`, takes: true, reason: record},
		// Valid envelopes whose body is not read.
		{name: "no JSON", data: `{`, takes: true, reason: envelope},
		{name: "nothing", data: ``, takes: true, reason: envelope},
		{name: "an array", data: `[]`, takes: true, reason: envelope},
		{name: "another type inside", data: `{"type":"thinking","content":"BAD"}`, takes: true, reason: envelope},
		{name: "two types", data: `{"type":"text_delta","type":"thinking"}`, takes: true, reason: envelope},
		{name: "no UTF-8", data: "{\"type\":\"text_delta\",\"delta\":\"\xff\"}", takes: true, reason: envelope},
		{name: "great depth", data: deep, takes: true, reason: envelope},
		{name: "zeros", data: strings.Repeat("\x00", 1000), takes: true, reason: envelope},
		{name: "msgpack: an array of 2^32 elements", header: contentType("application/msgpack"), data: "\xdd\xff\xff\xff\xff", takes: true, reason: envelope},
		{name: "msgpack: a text of 2^32 bytes", header: contentType("application/msgpack"), data: "\xdb\xff\xff\xff\xff", takes: true, reason: envelope},
		{name: "msgpack: a map of 2^32 pairs", header: contentType("application/msgpack"), data: "\xdf\xff\xff\xff\xff\xa4type", takes: true, reason: envelope},
		{name: "msgpack: great depth", header: contentType("application/msgpack"), data: strings.Repeat("\x91", 100_000) + "\xc0", takes: true, reason: envelope},
		{name: "msgpack that is JSON", header: contentType("application/msgpack"), data: text, takes: true, reason: envelope},
		{name: "an unknown format", header: contentType("text/html"), data: text, takes: true, reason: envelope},
		// Messages that are not records of this session.
		{name: "no headers", header: nothing, data: "hello", reason: envelope},
		{name: "no id", header: set("ce-id", "\x7f"), data: text, reason: envelope},
		{name: "ordinal 0", header: set("ce-id", "1-0"), data: text, reason: envelope},
		{name: "an ordinal beyond the range", header: set("ce-id", "1-99999999999999999999"), data: text, reason: envelope},
		{name: "another version", header: set("ce-specversion", "9"), data: text, reason: envelope},
		{name: "another session's", header: set("ce-source", "/acme/s2/s2"), data: text, reason: envelope},
		{name: "structured mode without an event", header: func(h nats.Header) {
			clear(h)
			h["content-type"] = []string{"application/cloudevents+json"}
		}, data: `{"specversion":"1.0"`, reason: envelope},
		{name: "a star for a session", subject: "tr.chunks.0.acme.s1.*x", data: text, reason: subject},
		{name: "a token that is too long", subject: "tr.chunks.0.acme.s1." + strings.Repeat("s", 65), data: text, reason: subject},
	}
}

// Another program writes each kind of poison, with a valid record after it: the snapshot has all valid records and counts the others, every poison becomes
// an entry with its bytes, and no record is held up.
func TestPoison(t *testing.T) {
	w := newEnv(t)
	t.Cleanup(w.project())
	w.record(1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	last, at := chunk.Ordinal(1), make(map[chunk.Seq]poison)
	var lost, skipped int64
	var want strings.Builder
	var good chunk.Record
	one := chunk.Value("1")
	for i, p := range poisons() {
		header := envelope(last+1, chunk.TypeTextDelta)
		if p.header != nil {
			p.header(header)
		}
		subject := p.subject
		if subject == "" {
			subject = "tr.chunks.0.acme.s1.s1"
		}
		p.sent = header
		at[w.putMessage(subject, header, []byte(p.data)).Seq] = p
		switch {
		case p.takes && p.reason == ReasonRecord:
			skipped++
		case p.takes:
			lost++
		}
		if p.takes {
			last++
		}
		last++
		good = w.record(last, chunk.TextDelta{Delta: fmt.Sprintf("%d ", i)})
		fmt.Fprintf(&want, "%d ", i)
		if i == 5 { // a state that is not there: the record is good, its patch is not
			last++
			w.record(last, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "replace", Path: "/a/b", Value: &one}}})
		}
	}
	natstest.Eventually(t, "the snapshot", func(ctx context.Context) error {
		if pos, _, _, err := w.Reader.StoredPosition(ctx, s1); err != nil || pos != good.Position() {
			return fmt.Errorf("at %+v, %w", pos, err)
		}
		return nil
	})
	snap := storetest.Stored(t, w.store, s1)
	storetest.Equal(t, "stored", snap, storetest.Fold(t, w.log, s1))
	if f := snap.Faults; f.Skipped != skipped || f.Lost != lost || f.RejectedPatches != 1 {
		t.Errorf("faults %+v; want %d skipped, %d lost, 1 patch", f, skipped, lost)
	}
	if page := string(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true}).AppendJSON(nil)); !strings.Contains(page, want.String()) || strings.Contains(page, "BAD") {
		t.Errorf("page %s\nwant in it %s", page, want.String())
	}
	w.complete(at)
	natstest.Eventually(t, "all to be acknowledged", func(ctx context.Context) error {
		c, err := w.JS.Consumer(ctx, "TR_CHUNKS_0", "projector")
		if err != nil {
			return err
		}
		if info := c.CachedInfo(); info.NumPending+uint64(info.NumAckPending) > 0 {
			return fmt.Errorf("%d pending, %d not acknowledged", info.NumPending, info.NumAckPending)
		}
		return nil
	})
}

// complete checks that the entries are just the poison, each once and whole.
func (w *env) complete(at map[chunk.Seq]poison) {
	w.Helper()
	entries := w.entries()
	if len(entries) != len(at) {
		w.Errorf("%d entries, want %d", len(entries), len(at))
	}
	for _, entry := range entries {
		p, ok := at[entry.Origin.Seq]
		if !ok {
			w.Errorf("an entry of %d, which is not poison: %s", entry.Origin.Seq, entry.Detail)
			continue
		}
		delete(at, entry.Origin.Seq)
		if entry.Reason != p.reason || entry.Detail == "" || !bytes.Equal(entry.Data, []byte(p.data)) {
			w.Errorf("%s: reason %s (%s), data %.60q; want %s, %.60q", p.name, entry.Reason, entry.Detail, entry.Data, p.reason, p.data)
		}
		var header nats.Header
		if len(entry.Header) > 0 {
			var err error
			if header, err = nats.DecodeHeadersMsg(entry.Header); err != nil {
				w.Errorf("%s: headers %q: %v", p.name, entry.Header, err)
			}
		}
		if fmt.Sprint(header) != fmt.Sprint(p.sent) {
			w.Errorf("%s: headers %v, want %v", p.name, header, p.sent)
		}
	}
	for seq, p := range at {
		w.Error(errors.New(p.name), "is no entry, at", seq)
	}
}

// The server stores a message whose subject has a wildcard as a literal token. One with * becomes a dead letter with its data. One with > matches no filter of
// a reader, so that it is not delivered and has no dead letter. Neither stops the readers of later records.
func TestLiteralWildcards(t *testing.T) {
	w := newEnv(t)
	defer w.project()()
	for _, subject := range []string{"tr.chunks.0.acme.s1.>", "tr.chunks.0.>.>.>", "tr.chunks.0.acme.>.s1"} {
		w.putMessage(subject, nil, []byte(subject))
	}
	stars := []string{"tr.chunks.0.acme.s1.*", "tr.chunks.0.acme.*.*", "tr.chunks.0.*.*.*"}
	for _, subject := range stars {
		w.putMessage(subject, nil, []byte(subject))
	}
	rec := w.record(1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	natstest.Eventually(t, "the dead letters and the snapshot", func(ctx context.Context) error {
		var got []string
		for _, entry := range w.entries() {
			if entry.Reason != ReasonSubject || string(entry.Data) != entry.Origin.Subject {
				return fmt.Errorf("entry %+v", entry)
			}
			got = append(got, entry.Origin.Subject)
		}
		if !slices.Equal(got, stars) {
			return fmt.Errorf("entries %q, want %q", got, stars)
		}
		if pos, _, _, err := w.Reader.StoredPosition(ctx, s1); err != nil || pos != rec.Position() {
			return fmt.Errorf("snapshot at %v, want %v: %w", pos, rec.Position(), err)
		}
		return nil
	})
}
