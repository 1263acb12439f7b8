package consumers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
)

func TestReplayIsWhatWasWritten(t *testing.T) {
	w := newWorld(t, Config{})
	bob := chunk.RootSession("acme", "bob")
	var want []chunk.Record
	for range 30 {
		want = append(want, w.say(alice, "hello"))
		w.say(bob, "between")
	}
	got, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	w.noConsumers()
}

func TestReplayFromEachPosition(t *testing.T) {
	w := newWorld(t, Config{})
	want := w.sayAll(alice, 12)
	for i, rec := range want {
		for name, after := range map[string]chunk.Position{"bare": {Seq: rec.Seq}, "proved": rec.Position()} {
			got, err := collect(w.reader.Replay(t.Context(), alice, after))
			if err != nil {
				t.Fatalf("%s cursor %d: %v", name, rec.Seq, err)
			}
			same(t, got, want[i+1:])
		}
	}
	w.noConsumers()
}

func TestReplayLongerThanABatch(t *testing.T) {
	w := newWorld(t, Config{})
	want := w.sayAll(alice, 2*batchReplay+17)
	got, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
}

func TestUnknownSessionIsNoBlockedReader(t *testing.T) {
	w := newWorld(t, Config{})
	w.say(chunk.RootSession("acme", "bob"), "somebody else")
	for name, seq := range map[string]func() error{
		"replay":      func() error { _, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{})); return err },
		"follow":      func() error { _, err := collect(w.reader.Follow(t.Context(), alice, chunk.Position{})); return err },
		"tree":        func() error { _, err := collect(w.reader.Tree(t.Context(), alice, 0)); return err },
		"replay tree": func() error { _, err := collect(w.reader.ReplayTree(t.Context(), alice, 0)); return err },
		"last":        func() error { _, err := w.reader.Last(t.Context(), alice); return err },
	} {
		if err := seq(); !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("%s: err = %v, want ErrUnknownSession", name, err)
		}
	}
	w.noConsumers()
}

// More than one request may carry: the server ends requests by their bytes.
func TestLargeRecords(t *testing.T) {
	w := newWorld(t, Config{})
	var want []chunk.Record
	for range 24 {
		want = append(want, w.say(alice, strings.Repeat("x", 400<<10)))
	}
	got, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	got, err = take(w.reader.Follow(t.Context(), alice, chunk.Position{}), len(want))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	if n := w.reader.Stats().Resets; n > 0 {
		t.Errorf("%d resets for nothing", n)
	}
	w.noConsumers()
}

// A message that alone is more than a request may carry is asked for without a
// limit, and does not end every request for ever.
func TestMessageBeyondTheLimitOfARequest(t *testing.T) {
	p := pull{served: true}
	tooLarge := func() *nats.Msg {
		return &nats.Msg{Header: nats.Header{statusHeader: {"409"}, descriptionHeader: {"Message Size Exceeds MaxBytes"}, "Nats-Pending-Messages": {"3"}}}
	}
	p.asked = 5
	if _, _, err := p.take(tooLarge()); err != nil || p.asked != 2 || p.unbounded {
		t.Errorf("after messages: asked %d, unbounded %v, %v; want 2, false", p.asked, p.unbounded, err)
	}
	p.asked = 3
	if _, _, err := p.take(tooLarge()); err != nil || p.asked != 0 || !p.unbounded {
		t.Errorf("again, without a message between: asked %d, unbounded %v, %v; want 0, true", p.asked, p.unbounded, err)
	}
}

func TestWordsOfTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		header nats.Header
		asked  int
		lost   bool
	}{
		"heartbeat":                  {nats.Header{statusHeader: {"100"}, "Nats-Last-Consumer": {"7"}}, 10, false},
		"heartbeat after a loss":     {nats.Header{statusHeader: {"100"}, "Nats-Last-Consumer": {"8"}}, 10, true},
		"heartbeat without numbers":  {nats.Header{statusHeader: {"100"}}, 10, false},
		"timeout":                    {nats.Header{statusHeader: {"408"}, "Nats-Pending-Messages": {"4"}}, 6, false},
		"timeout with more than all": {nats.Header{statusHeader: {"408"}, "Nats-Pending-Messages": {"40"}}, 0, false},
		"timeout with nonsense":      {nats.Header{statusHeader: {"408"}, "Nats-Pending-Messages": {"-4"}}, 10, false},
		"nothing there":              {nats.Header{statusHeader: {"404"}}, 0, false},
		"completed":                  {nats.Header{statusHeader: {"409"}, descriptionHeader: {"Batch Completed"}}, 10, false},
		"deleted":                    {nats.Header{statusHeader: {"409"}, descriptionHeader: {"Consumer Deleted"}}, 10, true},
		"leadership":                 {nats.Header{statusHeader: {"409"}, descriptionHeader: {"Leadership Change"}}, 10, true},
		"shutdown":                   {nats.Header{statusHeader: {"409"}, descriptionHeader: {"Server Shutdown"}}, 10, true},
		"nobody":                     {nats.Header{statusHeader: {"503"}}, 10, true},
		"bad request":                {nats.Header{statusHeader: {"400"}, descriptionHeader: {"Bad Request"}}, 10, true},
	} {
		p := pull{consumed: 7, asked: 10, quiet: 2}
		_, ok, err := p.take(&nats.Msg{Header: c.header})
		var gone *lostError
		if ok || errors.As(err, &gone) != c.lost || p.asked != c.asked || p.quiet != 0 {
			t.Errorf("%s: ok %v, err %v, asked %d, quiet %d; want lost %v, asked %d", name, ok, err, p.asked, p.quiet, c.lost, c.asked)
		}
	}
	// A stored message may have such a header of its own.
	p := pull{asked: 1}
	e, ok, err := p.take(&nats.Msg{Subject: "s", Reply: "$JS.ACK.S.c.1.9.1.5.0", Header: nats.Header{statusHeader: {"503"}}})
	if !ok || err != nil || e.seq != 9 {
		t.Errorf("a stored message: %+v, %v, %v", e, ok, err)
	}
}

// A consumer that has lost count says that nothing is there before it has
// delivered what it announced, and says so from then on. A read does not end with
// that.
func TestConsumerThatLostCount(t *testing.T) {
	w := newWorld(t, Config{})
	want := w.sayAll(alice, 30)
	subject, err := w.layout.Subject(alice)
	if err != nil {
		t.Fatal(err)
	}
	tp := w.reader.newTape(tapeSpec{stream: stream, filter: subject, patience: time.Second})
	defer tp.close()
	if err := tp.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &strands{Reader: w.reader, end: want[len(want)-1].Seq, open: []*strand{{tape: tp}}}
	for i, rec := range want {
		if i >= 10 { // the server's word in the place of a message
			if err := tp.takeStatus("404", &nats.Msg{Header: nats.Header{statusHeader: {"404"}}}); err != nil {
				t.Fatal(err)
			}
		}
		e, err := s.next(background(t, 10*time.Second))
		if err != nil {
			t.Fatalf("after %d records: %v", i, err)
		}
		got, err := e.record(alice)
		if err != nil {
			t.Fatal(err)
		}
		same(t, []chunk.Record{got}, []chunk.Record{rec})
	}
	if _, err := s.next(t.Context()); !errors.Is(err, errEnd) {
		t.Fatalf("err = %v, want the end", err)
	}
	w.noConsumers()
}
