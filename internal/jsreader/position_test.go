package jsreader

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestNewLeaderMayBeBehindForAWhile(t *testing.T) {
	_, js := newStream(t)
	publish(t, js, "s.a", 8)
	c := jsclient.New(js)
	b := position{epoch: "one", seq: 10}
	state := jsclient.State{Epoch: "one", Last: 8, Replicas: 3}
	if err := b.compare(t.Context(), c, testStream, state); err == nil || errors.Is(err, ErrRecreated) {
		t.Errorf("a leader that is behind: err = %v, want a retry", err)
	}
	b.behindSince = time.Now().Add(-2 * newLeaderGrace)
	if err := b.compare(t.Context(), c, testStream, state); !errors.Is(err, ErrRecreated) {
		t.Errorf("a leader that stays behind: err = %v, want ErrRecreated", err)
	}
	publish(t, js, "s.a", 2)
	if err := b.compare(t.Context(), c, testStream, state); err == nil || errors.Is(err, ErrRecreated) {
		t.Errorf("a replica that stays behind its leader: err = %v, want a retry", err)
	}
	state.Last = 10
	if err := b.compare(t.Context(), c, testStream, state); err != nil || !b.behindSince.IsZero() {
		t.Errorf("a leader that has caught up: err = %v", err)
	}
	state.Epoch = "two"
	if err := b.compare(t.Context(), c, testStream, state); !errors.Is(err, ErrRecreated) {
		t.Errorf("another stream: err = %v, want ErrRecreated", err)
	}
}

// A replica has another message at the position than the leader: only the leader decides whether the stream was rolled back.
func TestReplicaWithAnotherMessage(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Conn(t)
	js, err := jetstream.NewWithAPIPrefix(nc, "FAKE")
	if err != nil {
		t.Fatal(err)
	}
	read, other := time.Unix(100, 0).UTC(), time.Unix(200, 0).UTC()
	answer := func(subject string, m *nats.Msg) {
		t.Helper()
		if _, err := nc.Subscribe(subject, func(request *nats.Msg) { _ = request.RespondMsg(m) }); err != nil { // a lost response fails the test
			t.Fatal(err)
		}
	}
	answer("FAKE.DIRECT.GET.R", &nats.Msg{Data: []byte("x"), Header: nats.Header{
		jetstream.SequenceHeader: {"10"}, jetstream.SubjectHeader: {"s.a"}, jetstream.TimeStampHeaer: {other.Format(time.RFC3339Nano)},
	}})
	for stored, want := range map[time.Time]error{read: nil, other: ErrRecreated} {
		leader := fmt.Sprintf(`{"message":{"subject":"s.a","seq":10,"data":"eA==","time":%q}}`, stored.Format(time.RFC3339Nano))
		sub, err := nc.Subscribe("FAKE.STREAM.MSG.GET.R", func(request *nats.Msg) { _ = request.Respond([]byte(leader)) })
		if err != nil {
			t.Fatal(err)
		}
		p := position{seq: 10, stored: read}
		if err := p.compare(t.Context(), jsclient.New(js), "R", jsclient.State{Last: 12, Replicas: 3}); !errors.Is(err, want) {
			t.Errorf("the leader has the message of %s: err = %v, want %v", stored, err, want)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServerTooOld(t *testing.T) {
	for version, want := range map[string]bool{"2.9.1": true, "2.13.0": true, "2.14.0": false, "2.15.2": false, "3.0.0": false, "": false, "dev": false} {
		if serverTooOld(version) != want {
			t.Errorf("%q: %v, want %v", version, !want, want)
		}
	}
}
