package audit_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
)

// store stores events in memory, unless it is away.
type store struct {
	mu     sync.Mutex
	err    error
	events []audit.Event
}

func (s *store) Put(_ context.Context, e audit.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.events = append(s.events, e)
	}
	return s.err
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *store) all() []audit.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

var errAway = errors.New("away")

var act = audit.Event{Act: audit.Approve, Session: chunk.RootSession("acme", "s1"), Run: "r1", Call: "c1", By: &chunk.Principal{Subject: "ann", Issuer: new("i"), TokenID: "t1"}}

// run runs a log in the bubble of a test, and returns what ends it.
func run(t *testing.T, l *audit.Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// An act is recorded once if it is done or may be done, and not if it failed. While the store is away acts are carried out, and their events wait.
func TestAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{err: errAway}
		lost := 0
		l := audit.New(audit.Config{Store: s, OnLost: func() { lost++ }})
		stop := run(t, l)
		for _, tt := range []error{nil, errors.New("conflict"), chunk.ErrUnknownOutcome} {
			if err := l.Do(t.Context(), act, func() error { return tt }); !errors.Is(err, tt) {
				t.Errorf("%v: %v", tt, err)
			}
		}
		time.Sleep(time.Hour) // of the bubble
		if n := l.Queued(); n != 2 || len(s.all()) != 0 {
			t.Fatalf("%d events wait, %v are stored", n, s.all())
		}
		s.fail(nil)
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		var outcomes []audit.Outcome
		for _, e := range s.all() {
			outcomes = append(outcomes, e.Outcome)
			if e.Tenant != "acme" || e.ID == "" || e.Time.IsZero() || e.By.TokenID != "t1" {
				t.Errorf("%+v", e)
			}
		}
		if slices.Sort(outcomes); !slices.Equal(outcomes, []audit.Outcome{audit.Done, audit.Unknown}) {
			t.Errorf("outcomes %v", outcomes)
		}
		if stop(); lost != 0 {
			t.Errorf("%d lost", lost)
		}
	})
}

// What does not fit into the queue is counted as lost, also what waits when the process ends.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{err: errAway}
		var mu sync.Mutex
		lost := 0
		l := audit.New(audit.Config{Store: s, MaxQueue: 4, OnLost: func() { mu.Lock(); lost++; mu.Unlock() }})
		stop := run(t, l)
		for range 20 {
			if err := l.Do(t.Context(), act, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		mu.Lock()
		early := lost
		mu.Unlock()
		if queued := l.Queued(); early == 0 || early+queued != 20 {
			t.Errorf("%d lost, %d wait", early, queued)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain: %v", err)
		}
		if stop(); lost != 20 || l.Queued() != 0 {
			t.Errorf("%d lost, %d wait", lost, l.Queued())
		}
		if err := l.Do(t.Context(), act, func() error { return nil }); err != nil || lost != 21 {
			t.Errorf("after the end: %v, %d lost", err, lost)
		}
	})
}

// A required log refuses the act if the event cannot be stored before it.
func TestRequired(t *testing.T) {
	s := &store{err: errAway}
	l := audit.New(audit.Config{Store: s, Mode: audit.Required})
	done := 0
	do := func() error { done++; return nil }
	if err := l.Do(t.Context(), act, do); !errors.Is(err, audit.ErrUnavailable) || errors.Is(err, errAway) || done != 0 {
		t.Errorf("%v, done %d times", err, done)
	}
	s.fail(nil)
	if err := l.Do(t.Context(), act, do); err != nil || done != 1 {
		t.Errorf("%v, done %d times", err, done)
	}
	if all := s.all(); len(all) != 1 || all[0].Outcome != audit.Requested {
		t.Errorf("%+v", all)
	}
}

// Events of a Go program are stored before Do returns.
func TestSync(t *testing.T) {
	s := &store{}
	lost := 0
	l := audit.New(audit.Config{Store: s, Mode: audit.Sync, OnLost: func() { lost++ }})
	if err := l.Do(t.Context(), act, func() error { return nil }); err != nil || len(s.all()) != 1 {
		t.Errorf("%v, %+v", err, s.all())
	}
	s.fail(errAway)
	if err := l.Do(t.Context(), act, func() error { return nil }); err != nil || lost != 1 {
		t.Errorf("%v, %d lost", err, lost)
	}
}

// Refused accesses are limited; one event a second counts the others.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		l := audit.New(audit.Config{Store: s})
		stop := run(t, l)
		for range 10_000 {
			l.Refuse(audit.Event{Status: 401})
		}
		time.Sleep(1500 * time.Millisecond)
		var single, counted int64
		for _, e := range s.all() {
			if e.Act != audit.Access || e.Outcome != audit.Refused {
				t.Errorf("%+v", e)
			}
			if counted += e.Count; e.Count == 0 {
				single++
			}
		}
		if single != 50 || single+counted != 10_000 {
			t.Errorf("%d events of one, %d counted", single, counted)
		}
		stop()
	})
}

// A request is refused once, and a step that it repeats after a conflict is the same event.
func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		l := audit.New(audit.Config{Store: s})
		stop := run(t, l)
		by := &chunk.Principal{Subject: "ann"}
		ctx := l.NewContext(t.Context(), "acme", by, "POST /x", "192.0.2.1")
		audit.RefuseHidden(ctx, act.Session)
		audit.RefuseRequest(ctx, audit.Event{}, 404, "NOT_FOUND")
		audit.Describe(ctx, audit.Event{Run: "r7"})
		for range 2 {
			if err := l.Do(ctx, audit.Event{Act: audit.Message, Session: act.Session}, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		ids := map[string]audit.Event{}
		for _, e := range s.all() {
			ids[e.ID] = e
			if e.Tenant != "acme" || e.By != by || e.Route != "POST /x" || e.Address != "192.0.2.1" {
				t.Errorf("%+v", e)
			}
			if e.Act == audit.Message && e.Run != "r7" || e.Act == audit.Access && e.Reason != audit.ReasonHidden {
				t.Errorf("%+v", e)
			}
		}
		if len(ids) != 2 || len(s.all()) != 3 {
			t.Errorf("%d events with %d ids", len(s.all()), len(ids))
		}
	})
}

// A worker that repeats the step of another one records the same event, and a user who repeats an act another one.
func TestRepeatedEvents(t *testing.T) {
	s := &store{}
	l := audit.New(audit.Config{Store: s, Mode: audit.Sync})
	for range 2 {
		l.Record(t.Context(), act, audit.Refused)
		if err := l.Do(t.Context(), act, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	other := act
	other.Call = "c2"
	l.Record(t.Context(), other, audit.Refused)
	all := s.all()
	if len(all) != 5 || all[0].ID != all[2].ID || all[1].ID == all[3].ID || all[4].ID == all[0].ID {
		t.Errorf("%+v", all)
	}
}

// Without a log nothing is recorded.
func TestNoLog(t *testing.T) {
	var l *audit.Log
	ctx := l.NewContext(t.Context(), "acme", nil, "", "")
	l.Refuse(audit.Event{})
	audit.RefuseHidden(ctx, act.Session)
	audit.Describe(ctx, act)
	done := false
	if err := errors.Join(l.Do(ctx, act, func() error { done = true; return nil }), l.Drain(ctx), l.Run(ctx)); err != nil || !done || l.Queued() != 0 {
		t.Errorf("%v, done %t", err, done)
	}
}

// An event is the same after it was stored, as a CloudEvent.
func TestEventJSON(t *testing.T) {
	e := audit.Event{
		ID: "e1", Time: time.UnixMilli(1700000000123).UTC(), Act: audit.Access, Outcome: audit.Refused, Tenant: "acme",
		By:      &chunk.Principal{Subject: "ann", Issuer: new("https://login.example"), TokenID: "t1"},
		Session: chunk.Session{Tenant: "acme", Root: "r", ID: "s"}, Run: "run", Call: "c", Target: "t2", Route: "GET /x", Address: "192.0.2.1",
		Status: 404, Reason: audit.ReasonHidden, Count: 3,
	}
	data, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := audit.Decode(e.Header(), data)
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, e)
	}
	h := e.Header()
	if h["ce-type"][0] != "audit.access" || h["ce-source"][0] != "/acme/r/s" || h["ce-time"][0] != "2023-11-14T22:13:20.123Z" {
		t.Errorf("%v", h)
	}
	for _, bad := range []string{"", "{}", "[]"} {
		if _, err := audit.Decode(nil, []byte(bad)); err == nil {
			t.Errorf("%q: want an error", bad)
		}
	}
}
