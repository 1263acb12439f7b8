package jsclient

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func newSubjectPublisher(t *testing.T, nc *nats.Conn, timeout time.Duration) *SubjectPublisher {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPublisher(New(js), timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
	s := p.Open("S", "s.a")
	t.Cleanup(s.Close)
	return s
}

func TestReadResponse(t *testing.T) {
	s := &SubjectPublisher{stream: "S", subject: "s.a"}
	for _, c := range []struct {
		name   string
		status string
		data   string
		seq    uint64
		want   PublishResult
		cause  error
		count  int // of messages
	}{
		{"acknowledgement", "", `{"stream":"S","seq":7}`, 7, Stored, nil, 0},
		{"with other members", "", `{"stream":"S", "seq":7,"duplicate":true}`, 7, Stored, nil, 0},
		{"with a domain", "", `{"stream":"S","seq":7,"domain":"hub"}`, 7, Stored, nil, 0},
		{"no responders", "503", ``, 0, NotStored, nats.ErrNoResponders, 0},
		{"refusal", "", `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}`, 0, Conflict, nil, 0},
		{"another stream", "", `{"stream":"T","seq":7}`, 0, Closed, nil, 0},
		{"a stream with this prefix", "", `{"stream":"ST","seq":7}`, 0, Closed, nil, 0},
		{"no sequence", "", `{"stream":"S"}`, 0, Unknown, ErrBadResponse, 0},
		{"sequence 0", "", `{"stream":"S","seq":0}`, 0, Unknown, ErrBadResponse, 0},
		{"a negative sequence", "", `{"stream":"S","seq":-1}`, 0, Unknown, ErrBadResponse, 0},
		{"invalid JSON", "", `{"stream":"S","seq":7`, 0, Unknown, ErrBadResponse, 0},
		{"a batch", "", `{"stream":"S","seq":7,"batch":"x","count":3}`, 7, Stored, nil, 3},
		{"another batch", "", `{"stream":"S","seq":7,"batch":"x","count":2}`, 0, Unknown, ErrBadResponse, 3},
		{"the last message alone", "", `{"stream":"S","seq":7}`, 0, Unknown, ErrBadResponse, 3},
		{"empty", "", ``, 0, Unknown, ErrBadResponse, 0},
	} {
		m := &nats.Msg{Data: []byte(c.data)}
		if c.status != "" {
			m.Header = nats.Header{"Status": {c.status}}
		}
		seq, err := s.read(m, max(1, c.count))
		if seq != c.seq || ResultOf(err) != c.want || c.cause != nil && !errors.Is(err, c.cause) {
			t.Errorf("%s: sequence %d, result %d, %v; want %d, %d, %v", c.name, seq, ResultOf(err), err, c.seq, c.want, c.cause)
		}
	}
}

// A response that arrives after its wait was abandoned is the result of the next call with the same message.
func TestLateResponse(t *testing.T) {
	nc := natstest.Start(t).Conn(t)
	requests, err := nc.SubscribeSync("s.a") // takes the place of a stream
	if err != nil {
		t.Fatal(err)
	}
	s := newSubjectPublisher(t, nc, time.Minute)
	m := []*nats.Msg{{Data: []byte("x")}}
	abandon := make(chan struct{})
	close(abandon)
	if _, err := s.Publish(t.Context(), 1, m, abandon); !errors.Is(err, ErrWaitAbandoned) {
		t.Fatalf("%v, want an abandoned wait", err)
	}
	request, err := requests.NextMsgWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := request.Respond([]byte(`{"stream":"S","seq":7}`)); err != nil {
		t.Fatal(err)
	}
	if seq, err := s.Publish(t.Context(), 1, m, nil); err != nil || seq != 7 {
		t.Errorf("sequence %d, %v; want 7", seq, err)
	}
	if n, _, err := requests.Pending(); err != nil || n != 0 {
		t.Errorf("%d further messages sent, %v", n, err)
	}
}

func TestPublishTimeout(t *testing.T) {
	nc := natstest.Start(t).Conn(t)
	if _, err := nc.SubscribeSync("s.a"); err != nil { // never responds
		t.Fatal(err)
	}
	s := newSubjectPublisher(t, nc, 50*time.Millisecond)
	if _, err := s.Publish(t.Context(), 1, []*nats.Msg{{}}, nil); !errors.Is(err, nats.ErrTimeout) || ResultOf(err) != Unknown {
		t.Errorf("%v, want a timeout", err)
	}
}

// A broken connection ends the wait for a response, and a message is not sent without a connection.
func TestPublishWithoutConnection(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Conn(t)
	requests, err := nc.SubscribeSync("s.a")
	if err != nil {
		t.Fatal(err)
	}
	s := newSubjectPublisher(t, nc, time.Minute)
	result := make(chan error, 1)
	go func() { _, err := s.Publish(t.Context(), 1, []*nats.Msg{{}}, nil); result <- err }()
	if _, err := requests.NextMsgWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Shutdown()
	if err := <-result; !errors.Is(err, nats.ErrDisconnected) || ResultOf(err) != Unknown {
		t.Errorf("in flight: %v, want disconnected", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Publish(ctx, 2, []*nats.Msg{{}}, nil); !errors.Is(err, ErrNotConnected) || ResultOf(err) != NotStored {
		t.Errorf("no connection: %v, want not connected", err)
	}
	nc.Close()
	if _, err := s.Publish(t.Context(), 3, []*nats.Msg{{}}, nil); !errors.Is(err, nats.ErrConnectionClosed) || ResultOf(err) != Closed {
		t.Errorf("closed: %v, want a closed connection", err)
	}
}
