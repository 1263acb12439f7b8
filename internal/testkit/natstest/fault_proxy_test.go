package natstest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// Each fault is applied to the third of six messages; the consumer sequences
// show the gap unless the message is dropped silently.
func TestFaultProxyChangesSingleDeliveries(t *testing.T) {
	srv := natstest.Start(t)
	direct := srv.JetStream(t)
	if _, err := direct.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 6; n++ {
		if _, err := direct.Publish(t.Context(), fmt.Sprintf("s.%d", n), []byte("body"), jetstream.WithMsgID(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	proxy := natstest.StartFaultProxy(t, srv.URL)
	js := natstest.JetStream(t, proxy.URL)
	for _, tt := range []struct {
		fault natstest.Fault
		want  []string // subject/number of the delivery
	}{
		{natstest.Deliver, []string{"s.1/1", "s.2/2", "s.3/3", "s.4/4", "s.5/5", "s.6/6"}},
		{natstest.Drop, []string{"s.1/1", "s.2/2", "s.4/4", "s.5/5", "s.6/6"}},
		{natstest.Duplicate, []string{"s.1/1", "s.2/2", "s.3/3", "s.3/3", "s.4/4", "s.5/5", "s.6/6"}},
		{natstest.Reorder, []string{"s.1/1", "s.2/2", "s.4/4", "s.3/3", "s.5/5", "s.6/6"}},
		{natstest.DropSilently, []string{"s.1/1", "s.2/2", "s.4/3", "s.5/4", "s.6/5"}},
	} {
		proxy.SetDeliveryFaults(func(d natstest.Delivery) natstest.Fault {
			if d.Subject == "s.3" && strings.Contains(d.Header, "Nats-Msg-Id: 3") {
				return tt.fault
			}
			return natstest.Deliver
		})
		consumer, err := js.CreateConsumer(t.Context(), "S", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MaxDeliver: -1})
		if err != nil {
			t.Fatal(err)
		}
		batch, err := consumer.FetchNoWait(10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s/%d", msg.Subject(), meta.Sequence.Consumer))
		}
		if !slices.Equal(got, tt.want) || batch.Error() != nil {
			t.Errorf("fault %d: got %v, want %v (%v)", tt.fault, got, tt.want, batch.Error())
		}
		if proxy.Count(tt.fault) == 0 {
			t.Errorf("fault %d was not counted", tt.fault)
		}
	}
}

// A message is stored, and its acknowledgement is lost.
func TestFaultProxyDropsSingleResponses(t *testing.T) {
	srv := natstest.Start(t)
	if _, err := srv.JetStream(t).CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
		t.Fatal(err)
	}
	proxy := natstest.StartFaultProxy(t, srv.URL)
	js := natstest.JetStream(t, proxy.URL)
	proxy.SetResponseFaults(func(answer []byte) bool { return strings.Contains(string(answer), `"seq":2`) })
	for n, want := range []error{nil, context.DeadlineExceeded, nil} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := js.Publish(ctx, "s.a", nil)
		cancel()
		if !errors.Is(err, want) {
			t.Errorf("message %d: %v, want %v", n+1, err, want)
		}
	}
	info, err := srv.JetStream(t).Stream(t.Context(), "S")
	if err != nil || info.CachedInfo().State.Msgs != 3 {
		t.Errorf("%+v, %v: want three messages", info.CachedInfo().State, err)
	}
}
