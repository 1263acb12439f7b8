package jsreader

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const testStream = "S"

// newStream returns a server with a stream, and another one that no test deletes. After the delete of the last stream of an account, nats-server removes
// the directory of its streams in a goroutine, and a stream that is created meanwhile fails (10049).
func newStream(t *testing.T, opts ...natstest.Option) (*natstest.Server, jetstream.JetStream) {
	t.Helper()
	srv := natstest.Start(t, opts...)
	js := srv.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}}); err != nil {
		t.Fatal(err)
	}
	createStream(t, js)
	return srv, js
}

func createStream(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: testStream, Subjects: []string{"s.>"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
}

// publish stores n messages whose data is their sequence.
func publish(t *testing.T, js jetstream.JetStream, subject string, n int) {
	t.Helper()
	s, err := js.Stream(t.Context(), testStream)
	if err != nil {
		t.Fatal(err)
	}
	first := s.CachedInfo().State.LastSeq + 1
	for i := range n {
		if _, err := js.Publish(t.Context(), subject, fmt.Append(nil, first+uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// A message that is larger than the limit of a request is requested without a limit, and does not end every request.
func TestMessageBeyondTheLimitOfARequest(t *testing.T) {
	p := pull{served: true}
	tooLarge := func() *nats.Msg {
		return &nats.Msg{Header: nats.Header{statusHeader: {"409"}, descriptionHeader: {"Message Size Exceeds MaxBytes"}, "Nats-Pending-Messages": {"3"}}}
	}
	p.asked = 5
	if _, _, err := p.handleMsg(tooLarge()); err != nil || p.asked != 2 || p.unbounded {
		t.Errorf("after messages: asked %d, unbounded %v, %v; want 2, false", p.asked, p.unbounded, err)
	}
	p.asked = 3
	if _, _, err := p.handleMsg(tooLarge()); err != nil || p.asked != 0 || !p.unbounded {
		t.Errorf("again, without a message between: asked %d, unbounded %v, %v; want 0, true", p.asked, p.unbounded, err)
	}
}

func TestStatuses(t *testing.T) {
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
		"no responders":              {nats.Header{statusHeader: {"503"}}, 0, false},
		"bad request":                {nats.Header{statusHeader: {"400"}, descriptionHeader: {"Bad Request"}}, 10, true},
	} {
		p := pull{consumed: 7, asked: 10, ticksSinceData: 2}
		_, ok, err := p.handleMsg(&nats.Msg{Header: c.header})
		var lost *consumerLostError
		if ok || errors.As(err, &lost) != c.lost || p.asked != c.asked || p.ticksSinceData != 0 {
			t.Errorf("%s: ok %v, err %v, asked %d, ticks %d; want lost %v, asked %d", name, ok, err, p.asked, p.ticksSinceData, c.lost, c.asked)
		}
	}
	live := pull{live: true, asked: 10}
	if _, _, err := live.handleMsg(&nats.Msg{Header: nats.Header{statusHeader: {"503"}}}); err == nil || live.refusals != 1 {
		t.Errorf("no responders, live: err %v, %d refusals; want the consumer lost, 1", err, live.refusals)
	}
	// A stored message may have such a header of its own.
	p := pull{asked: 1}
	e, ok, err := p.handleMsg(&nats.Msg{Subject: "s", Reply: "$JS.ACK.S.c.1.9.1.5.0", Header: nats.Header{statusHeader: {"503"}}})
	if !ok || err != nil || e.Seq != 9 {
		t.Errorf("a stored message: %+v, %v, %v", e, ok, err)
	}
}

// The subscription of a new consumer did not get to the server of the client yet. The reader asks the same consumer again, with a pause that grows, and
// replaces it after a while.
func TestNoResponders(t *testing.T) {
	_, js := newStream(t)
	publish(t, js, "s.a", 3)
	resets := 0
	o := NewOrdered(jsclient.New(js), OrderedConfig{Stream: testStream, OpenTimeout: 5 * time.Second, OnReset: func() { resets++ }})
	defer o.Close()
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	refuse := func() error {
		_, _, err := o.handleMsg(&nats.Msg{Header: nats.Header{statusHeader: {"503"}}})
		return err
	}
	for range 4 {
		if err := refuse(); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for want := uint64(1); want <= 3; want++ {
		if e, err := o.Next(t.Context()); err != nil || e.Seq != want {
			t.Fatalf("read %d, %v; want %d", e.Seq, err, want)
		}
	}
	if elapsed := time.Since(began); elapsed < 40*time.Millisecond || resets > 0 || o.refusals > 0 {
		t.Errorf("after %s, %d resets, %d refusals; want a pause of 40ms, none, none", elapsed, resets, o.refusals)
	}
	for range maxRefusals {
		if err := refuse(); err != nil {
			t.Fatal(err)
		}
	}
	var lost *consumerLostError
	if err := refuse(); !errors.As(err, &lost) {
		t.Errorf("after %d refusals: err = %v, want a lost consumer", maxRefusals, err)
	}
}

// An attempt to attach that makes many slow requests begins none of them after the timeout of the caller.
func TestOpenTimeoutEndsAnAttempt(t *testing.T) {
	_, js := newStream(t)
	o := NewOrdered(jsclient.New(js), OrderedConfig{Stream: testStream})
	asked := 0
	attach := func(ctx context.Context) error {
		for range 100 {
			if _, err := jsclient.Request(ctx, func(context.Context) (bool, error) { asked++; <-time.After(50 * time.Millisecond); return true, nil }); err != nil {
				return err
			}
		}
		return nil
	}
	err := o.persist(t.Context(), 200*time.Millisecond, attach, o.final)
	if !errors.Is(err, context.DeadlineExceeded) || asked > 5 {
		t.Errorf("err = %v after %d requests, want the deadline after at most 5", err, asked)
	}
}

// A consumer whose count is wrong reports that nothing is there before it has delivered what it announced, and keeps reporting it. The read does not
// end with that.
func TestConsumerWithAWrongCount(t *testing.T) {
	_, js := newStream(t)
	publish(t, js, "s.a", 30)
	o := NewOrdered(jsclient.New(js), OrderedConfig{Stream: testStream, Filter: "s.a", OpenTimeout: time.Second})
	defer o.Close()
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for want := uint64(1); want <= 30; want++ {
		if want > 10 { // the status takes the place of a message
			if err := o.takeStatus("404", &nats.Msg{Header: nats.Header{statusHeader: {"404"}}}); err != nil {
				t.Fatal(err)
			}
		}
		e, err := o.NextThrough(ctx, 30)
		if err != nil || e.Seq != want || string(e.Data) != fmt.Sprint(want) {
			t.Fatalf("read %d %q, %v; want %d", e.Seq, e.Data, err, want)
		}
	}
	if _, err := o.NextThrough(ctx, 30); !errors.Is(err, ErrEnd) {
		t.Fatalf("err = %v, want ErrEnd", err)
	}
}

// The user may not create consumers. The first attempt of a live reader, which has no limit of time, ends with the reason.
func TestDeniedConsumer(t *testing.T) {
	srv, js := newStream(t, natstest.ServerConfig(`accounts { A { jetstream: enabled, users: [ {user: all, password: p},
		{user: few, password: p, permissions: {publish: {deny: ["$JS.API.CONSUMER.CREATE.>"]}}} ] } }, no_auth_user: all`))
	publish(t, js, "s.a", 1)
	for _, filter := range []string{"", "s.a"} {
		o := NewOrdered(jsclient.New(srv.JetStream(t, nats.UserInfo("few", "p"))), OrderedConfig{Stream: testStream, Filter: filter})
		if err := o.reattach(t.Context(), 0); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("filter %q: %v", filter, err)
		}
		o.Close()
	}
}
