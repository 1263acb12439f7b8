package producers

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// Deliveries are lost and repeated, and the connection breaks: a scan yields every message once and in order, and leaves no consumer.
func TestScanOverAFaultyConnection(t *testing.T) {
	srv := natstest.Start(t)
	p := newEnv(t, srv.Conn(t), 1)
	want := p.fill(t, 1500)
	proxy := natstest.StartFaultProxy(t, srv.URL)
	deliveries := 0
	proxy.SetDeliveryFaults(func(natstest.Delivery) natstest.Fault {
		switch deliveries++; {
		case deliveries%199 == 0:
			return natstest.Drop
		case deliveries%97 == 0:
			return natstest.Duplicate
		}
		return natstest.Deliver
	})
	var got []chunk.Seq
	for m, err := range scanner(t, proxy.URL, Config{}).scan(t.Context(), scanRange{through: want[len(want)-1]}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, m.seq); len(got)%400 == 0 {
			proxy.CloseConnections()
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d messages, want %d", len(got), len(want))
	}
	if proxy.Count(natstest.Drop) == 0 || proxy.Count(natstest.Duplicate) == 0 {
		t.Error("no faults")
	}
	wantNoConsumers(t, p)
}

// A server that does not respond ends a scan, before its first message and in the middle: before the scan requests the last third.
func TestScanWithoutAResponse(t *testing.T) {
	srv := natstest.Start(t)
	p := newEnv(t, srv.Conn(t), 1)
	want := p.fill(t, 1500)
	through := want[len(want)-1]
	for name, stallAt := range map[string]int{"at first": 0, "in the middle": 400} {
		t.Run(name, func(t *testing.T) {
			proxy := natstest.StartProxy(t, srv.URL)
			log := scanner(t, proxy.URL, Config{AttemptTimeout: 100 * time.Millisecond})
			if stallAt == 0 {
				proxy.Stall()
			}
			n, last := 0, error(nil)
			for _, err := range log.scan(t.Context(), scanRange{through: through}) {
				if last = err; err != nil {
					continue
				}
				if n++; n == stallAt {
					proxy.Stall()
				}
			}
			if last == nil || t.Context().Err() != nil || final(last) {
				t.Errorf("%d messages, then %v, want an error that a caller retries", n, last)
			}
		})
	}
}

// A scan whose last message was deleted ends at a later message; without one the range cannot be proved complete.
func TestScanToADeletedMessage(t *testing.T) {
	p := local(t)
	seqs := p.fill(t, 3)
	log := newScanner(t, p.js, Config{})
	scan := func(through chunk.Seq) (got []chunk.Seq, last error) {
		for m, err := range log.scan(t.Context(), scanRange{through: through}) {
			if last = err; err == nil {
				got = append(got, m.seq)
			}
		}
		return got, last
	}
	remove := func(i int) {
		t.Helper()
		if err := log.remove(t.Context(), seqs[i]); err != nil {
			t.Fatal(err)
		}
	}
	remove(1)
	if got, err := scan(seqs[1]); err != nil || !slices.Equal(got, seqs[:1]) {
		t.Errorf("%d, %v, want %d", got, err, seqs[:1])
	}
	remove(2)
	if got, err := scan(seqs[2]); !errors.Is(err, errScanIncomplete) || !slices.Equal(got, seqs[:1]) {
		t.Errorf("%d, %v, want %d and an error", got, err, seqs[:1])
	}
}

// fill stores n messages of the test session and returns their sequences.
func (p env) fill(t *testing.T, n int) []chunk.Seq {
	t.Helper()
	seqs := make([]chunk.Seq, n)
	for i := range seqs {
		ack, err := p.js.Publish(t.Context(), "tr.chunks.0.acme.s1.s1", nil)
		if err != nil {
			t.Fatal(err)
		}
		seqs[i] = chunk.Seq(ack.Sequence)
	}
	return seqs
}

// scanner returns the log of the test session over a connection of its own.
func scanner(t *testing.T, url string, cfg Config) *natsLog {
	t.Helper()
	js := natstest.JetStream(t, url, nats.ErrorHandler(quiet))
	return newScanner(t, js, cfg)
}

func newScanner(t *testing.T, js jetstream.JetStream, cfg Config) *natsLog {
	t.Helper()
	log, err := newTestProducer(t, js, cfg).newNATSLog(testSession)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.close)
	return log
}
