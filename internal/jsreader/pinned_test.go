package jsreader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// client is a Pinned on a connection of its own, and what it got.
type client struct {
	*Pinned

	nc   *nats.Conn
	stop func() error // ends Run and returns its error

	mu  sync.Mutex // guards got
	got []Entry
	ack bool // acknowledge at once
}

func newClient(t *testing.T, srv *natstest.Server, change func(*PinnedConfig)) *client {
	t.Helper()
	nc := srv.Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	cfg := PinnedConfig{
		Stream: testStream, Name: "sink", Filter: "s.>", Ahead: 200, Batch: 10, Request: 50,
		AckWait: 10 * time.Minute, TakeoverTimeout: 2 * time.Second, Heartbeat: 500 * time.Millisecond, InOrderOnly: true,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	return &client{Pinned: NewPinned(jsclient.New(js), cfg), nc: nc}
}

func (c *client) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.Run(ctx, func(_ context.Context, entries []Entry) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.got = append(c.got, entries...)
			if !c.ack {
				return nil
			}
			for i := range entries {
				if err := c.Ack(entries[i].Receipt()); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	c.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = c.stop() }) // tests that expect an error call stop themselves
}

func (c *client) entries() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// recreated waits until Run has ended because the stream was recreated.
func (c *client) recreated(t *testing.T) {
	t.Helper()
	natstest.Eventually(t, "the end of Run", func(context.Context) error {
		if err := c.Ack(); !errors.Is(err, ErrRecreated) {
			return fmt.Errorf("an acknowledgement is accepted: %w", err)
		}
		return nil
	})
	if err := c.stop(); !errors.Is(err, ErrRecreated) {
		t.Fatalf("Run: %v, want ErrRecreated", err)
	}
}

// has waits until the client has got n deliveries, and returns them.
func (c *client) has(t *testing.T, n int) []Entry {
	t.Helper()
	natstest.Eventually(t, "deliveries", func(context.Context) error {
		if got := len(c.entries()); got < n {
			return fmt.Errorf("%d of %d", got, n)
		}
		return nil
	})
	return c.entries()
}

// contiguous fails unless entries are the messages from..to, in order.
func contiguous(t *testing.T, entries []Entry, from, to uint64) {
	t.Helper()
	var seqs []uint64
	for _, e := range entries {
		seqs = append(seqs, e.Seq)
	}
	for i, seq := range seqs {
		if seq != from+uint64(i) {
			t.Fatalf("delivered %v, want %d to %d", seqs, from, to)
		}
	}
	if len(seqs) != int(to-from+1) {
		t.Fatalf("delivered %v, want %d to %d", seqs, from, to)
	}
}

func consumerInfo(t *testing.T, js jetstream.JetStream) *jetstream.ConsumerInfo {
	t.Helper()
	c, err := js.Consumer(t.Context(), testStream, "sink")
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo()
}

// awaitAckFloor waits until the server has counted the acknowledgements up to a sequence.
func awaitAckFloor(t *testing.T, js jetstream.JetStream, want uint64) {
	t.Helper()
	natstest.Eventually(t, "the ack floor", func(context.Context) error {
		if got := consumerInfo(t, js).AckFloor.Stream; got != want {
			return fmt.Errorf("ack floor %d, want %d", got, want)
		}
		return nil
	})
}

// awaitPending waits until the server counts n deliveries without acknowledgement.
func awaitPending(t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	natstest.Eventually(t, "the acknowledgements", func(context.Context) error {
		if info := consumerInfo(t, js); info.NumAckPending != n || info.NumPending > 0 {
			return fmt.Errorf("%d not acknowledged, %d not delivered; want %d, 0", info.NumAckPending, info.NumPending, n)
		}
		return nil
	})
}

// unpin makes the server choose a client once more.
func unpin(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	s, err := js.Stream(t.Context(), testStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.UnpinConsumer(t.Context(), "sink", PinnedGroup); err != nil {
		t.Fatal(err)
	}
}

// Clients die one after the other, each with deliveries that it has acknowledged in any order, and with others. The next one begins at the first that
// is not acknowledged, and its deliveries are contiguous.
func TestTakeover(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 100)
	from := uint64(1)
	for round := range 4 {
		c := newClient(t, srv, nil)
		c.run(t)
		got := c.has(t, int(100-from+1))
		contiguous(t, got, from, 100)
		acks := []int{5, 3, 0, 1, 2, 9} // so 4 is the first that is missing
		for _, i := range acks {
			if err := c.Ack(got[i].Receipt()); err != nil {
				t.Fatal(err)
			}
		}
		from += 4
		if got := c.Acknowledged(); got != from-1 {
			t.Fatalf("round %d: acknowledged up to %d, want %d", round, got, from-1)
		}
		awaitAckFloor(t, js, from-1)
		if round%2 == 0 {
			c.nc.Close() // like a crash: the pin is not released
			if err := c.stop(); err == nil {
				t.Fatal("no error without a connection")
			}
		} else {
			if err := c.stop(); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			c.Release(t.Context())
			if pinned := consumerInfo(t, js).PriorityGroups; len(pinned) > 0 && pinned[0].PinnedClientID != "" {
				t.Errorf("still pinned after the release: %+v", pinned)
			}
		}
	}
}

// Two messages stay unacknowledged while later ones are acknowledged. Whenever the client attaches again, take does not get the acknowledged ones.
func TestReattachKeepsAcknowledgements(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 50)
	c := newClient(t, srv, nil)
	c.run(t)
	got := c.has(t, 50)
	contiguous(t, got, 1, 50)
	stuck := []Receipt{got[2].Receipt(), got[6].Receipt()}
	for i := range got {
		if r := got[i].Receipt(); r != stuck[0] && r != stuck[1] {
			if err := c.Ack(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	awaitPending(t, js, 2)

	if err := c.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the reader", func(context.Context) error {
		if n := c.Attached(); n < 2 {
			return fmt.Errorf("attached %d times", n)
		}
		return nil
	})
	publish(t, js, "s.a", 1)
	contiguous(t, c.has(t, 51), 1, 51)
	awaitPending(t, js, 3) // the server has counted the acknowledgements of the later messages, too

	unpin(t, js)
	publish(t, js, "s.a", 1)
	repeated := c.has(t, 55)[51:]
	for i, want := range []uint64{3, 7, 51, 52} {
		if repeated[i].Seq != want {
			t.Errorf("delivery %d after the pin was lost: message %d, want %d", i, repeated[i].Seq, want)
		}
	}
	awaitPending(t, js, 4)
	for i := range repeated {
		if err := c.Ack(repeated[i].Receipt()); err != nil {
			t.Fatal(err)
		}
	}
	awaitAckFloor(t, js, 52)
	if got := c.Acknowledged(); got != 52 || len(c.entries()) != 55 {
		t.Errorf("acknowledged up to %d after %d deliveries, want 52 and 55", got, len(c.entries()))
	}
}

// A Run that begins after another one gets at once what that one has delivered and take has not acknowledged.
func TestRunAgain(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 10)
	c := newClient(t, srv, nil)
	c.run(t)
	got := c.has(t, 10)
	if err := c.Ack(got[0].Receipt(), got[5].Receipt()); err != nil {
		t.Fatal(err)
	}
	if err := c.stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.run(t)
	var seqs []uint64
	for _, e := range c.has(t, 18)[10:] {
		seqs = append(seqs, e.Seq)
	}
	if want := []uint64{2, 3, 4, 5, 7, 8, 9, 10}; !slices.Equal(seqs, want) {
		t.Errorf("delivered %v, want %v", seqs, want)
	}
}

// The server discards acknowledgements of messages that it has not delivered since a reset. A client that ends meanwhile is released nevertheless.
func TestReleaseAfterLostAcknowledgements(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 10)
	c := newClient(t, srv, nil)
	c.run(t)
	got := c.has(t, 10)
	if err := c.stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := js.ResetConsumer(t.Context(), testStream, "sink"); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if err := c.Ack(got[i].Receipt()); err != nil {
			t.Fatal(err)
		}
	}
	c.Release(t.Context())
	if info := consumerInfo(t, js); info.PriorityGroups[0].PinnedClientID != "" {
		t.Errorf("still pinned after the release: %+v", info.PriorityGroups)
	}
}

// Two clients on one consumer: one gets everything, the other nothing, until the first ends.
func TestOneClientAtATime(t *testing.T) {
	srv, js := newStream(t)
	one, two := newClient(t, srv, nil), newClient(t, srv, nil)
	one.ack, two.ack = true, true
	one.run(t)
	publish(t, js, "s.a", 20)
	contiguous(t, one.has(t, 20), 1, 20)
	two.run(t)
	publish(t, js, "s.a", 20)
	contiguous(t, one.has(t, 40), 1, 40)
	if got := two.entries(); len(got) > 0 {
		t.Errorf("the client that waits got %d deliveries", len(got))
	}
	natstest.Eventually(t, "the position of the client that waits", func(context.Context) error {
		if got := two.Acknowledged(); got != 40 {
			return fmt.Errorf("%d, want 40", got)
		}
		return nil
	})
	if err := one.stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	one.Release(t.Context())
	publish(t, js, "s.a", 20)
	contiguous(t, two.has(t, 20), 41, 60)
}

// A take that needs longer than TakeoverTimeout, with as many deliveries as the server sends ahead, does not lose the pin to a client that waits for it.
func TestSlowTakeKeepsThePin(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 20)
	requests := make(chan *nats.Msg, 1000)
	sub, err := js.Conn().ChanSubscribe("$JS.API.CONSUMER.MSG.NEXT."+testStream+".sink", requests)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	small := func(cfg *PinnedConfig) { cfg.Ahead, cfg.Batch, cfg.Request = 2, 1, 2 }
	slow, other := newClient(t, srv, small), newClient(t, srv, small)
	ctx, cancel := context.WithCancel(t.Context())
	taken, resume, ended := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- slow.Run(ctx, func(_ context.Context, entries []Entry) error {
			select {
			case taken <- struct{}{}:
			default:
			}
			<-resume
			slow.mu.Lock()
			slow.got = append(slow.got, entries...)
			slow.mu.Unlock()
			return slow.Ack(entries[0].Receipt())
		})
	}()
	unblock := sync.OnceFunc(func() { close(resume) })
	slow.stop = sync.OnceValue(func() error { cancel(); unblock(); return <-ended })
	t.Cleanup(func() { _ = slow.stop() }) // the test has checked the error, or failed
	natstest.Receive(t, "a delivery", taken)
	other.run(t)
	pin := consumerInfo(t, js).PriorityGroups[0].PinnedClientID
	lost := time.NewTimer(10 * slow.cfg.TakeoverTimeout)
	defer lost.Stop()
	for kept := 0; kept < 7; { // one every third of TakeoverTimeout
		select {
		case m := <-requests:
			if strings.Contains(string(m.Data), pin) {
				kept++
			}
		case <-lost.C:
			t.Fatalf("%d requests of the pinned client %q while take works, want 7; now %q is pinned",
				kept, pin, consumerInfo(t, js).PriorityGroups[0].PinnedClientID)
		}
	}
	if got := consumerInfo(t, js).PriorityGroups[0].PinnedClientID; got != pin {
		t.Errorf("client %q is pinned, want still %q", got, pin)
	}
	unblock()
	contiguous(t, slow.has(t, 20), 1, 20)
	awaitAckFloor(t, js, 20)
	if err := slow.stop(); !errors.Is(err, context.Canceled) || slow.Attached() != 1 || len(other.entries()) > 0 {
		t.Errorf("%v, attached %d times, %d deliveries to the other client; want 1, none", err, slow.Attached(), len(other.entries()))
	}
}

// A consumer that was deleted is created again after what is acknowledged, not at the start and not at the end of the stream.
func TestConsumerCreatedAgain(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 20)
	c := newClient(t, srv, nil)
	c.run(t)
	for _, e := range c.has(t, 20)[:7] {
		if err := c.Ack(e.Receipt()); err != nil {
			t.Fatal(err)
		}
	}
	awaitAckFloor(t, js, 7)
	if err := js.DeleteConsumer(t.Context(), testStream, "sink"); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the consumer", func(ctx context.Context) error { // the deleted one may still respond, and deliver the same
		consumer, err := js.Consumer(ctx, testStream, "sink")
		if err != nil {
			return err
		}
		if got := consumer.CachedInfo().Config; got.DeliverPolicy != jetstream.DeliverByStartSequencePolicy || got.OptStartSeq != 8 {
			return fmt.Errorf("created with %v at %d, want a start at 8", got.DeliverPolicy, got.OptStartSeq)
		}
		return nil
	})
	publish(t, js, "s.a", 1)
	natstest.Eventually(t, "the last message", func(context.Context) error {
		if got := c.entries(); got[len(got)-1].Seq != 21 {
			return fmt.Errorf("delivered up to %d", got[len(got)-1].Seq)
		}
		return nil
	})
	got := c.entries()
	contiguous(t, got[len(got)-14:], 8, 21)
	for _, e := range got[20:] {
		if e.Seq < 8 {
			t.Errorf("message %d was delivered once more after its acknowledgement", e.Seq)
		}
	}
}

// A delivery that is not acknowledged is repeated after AckWait, between newer ones, and its acknowledgement counts.
func TestRepeatedDelivery(t *testing.T) {
	srv, js := newStream(t)
	c := newClient(t, srv, func(cfg *PinnedConfig) {
		cfg.AckWait, cfg.TakeoverTimeout, cfg.Heartbeat = time.Second, 10*time.Second, 2*time.Second
	})
	c.run(t)
	publish(t, js, "s.a", 3)
	got := c.has(t, 3)
	if err := c.Ack(got[1].Receipt(), got[2].Receipt()); err != nil {
		t.Fatal(err)
	}
	repeated := c.has(t, 4)[3]
	if repeated.Seq != 1 || repeated.Deliveries != 2 {
		t.Fatalf("delivery %d of message %d, want the second of 1", repeated.Deliveries, repeated.Seq)
	}
	if got := c.Acknowledged(); got != 0 {
		t.Errorf("acknowledged up to %d, want 0", got)
	}
	if err := c.Ack(repeated.Receipt()); err != nil || c.Acknowledged() != 3 {
		t.Errorf("acknowledged up to %d, %v; want 3", c.Acknowledged(), err)
	}
}

// A stream that is deleted and created again ends Run; a late acknowledgement does not count for the messages of the new stream.
func TestStreamRecreatedUnderAPinned(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 10)
	c := newClient(t, srv, nil)
	c.run(t)
	old := c.has(t, 10)
	if err := js.DeleteStream(t.Context(), testStream); err != nil {
		t.Fatal(err)
	}
	createStream(t, js)
	publish(t, js, "s.a", 5)
	c.recreated(t)
	next := newClient(t, srv, nil)
	next.run(t)
	contiguous(t, next.has(t, 5), 1, 5)
	if err := c.Ack(old[0].Receipt()); !errors.Is(err, ErrRecreated) {
		t.Errorf("Ack: %v, want ErrRecreated", err)
	}
	if err := next.stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	next.Release(t.Context())
	if got := consumerInfo(t, js).AckFloor.Stream; got != 0 {
		t.Errorf("ack floor %d, want 0", got)
	}
}

// The stream is deleted and created again while a reader that waits for the pin has no request, so that the server does not tell it, and another reader creates
// the consumer of the new stream before the next request. The reader detects it when nothing is delivered, and when it gets the pin.
func TestStreamRecreatedUnderAWaitingPinned(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 10)
	first := newClient(t, srv, nil)
	first.ack = true
	first.run(t)
	first.has(t, 10)
	waiting := newClient(t, srv, nil)
	waiting.listen()
	defer waiting.close()
	if err := waiting.reattach(t.Context(), waiting.cfg.OpenTimeout); err != nil || waiting.active {
		t.Fatalf("attached: %v, active: %t", err, waiting.active)
	}
	if err := js.DeleteStream(t.Context(), testStream); err != nil {
		t.Fatal(err)
	}
	first.recreated(t)
	createStream(t, js)
	publish(t, js, "s.a", 5)
	next := newClient(t, srv, nil)
	next.ack = true
	next.run(t)
	next.has(t, 5)
	pinned := Entry{Message: jsclient.Message{Header: nats.Header{"Nats-Pin-Id": {"x"}}}}
	for name, err := range map[string]error{"silence": waiting.resetOrphaned(t.Context()), "the pin": waiting.takeOver(t.Context(), &pinned)} {
		if _, lost := errors.AsType[*consumerLostError](err); !lost {
			t.Errorf("%s: %v, want a lost consumer", name, err)
		}
		if err := waiting.recover(t.Context(), err); !errors.Is(err, ErrRecreated) {
			t.Errorf("%s: %v, want ErrRecreated", name, err)
		}
	}
	if err := next.stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The stream is deleted and created again while the reader is not attached, so that only the creation time shows it.
func TestStreamRecreatedBetweenTwoRuns(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 10)
	c := newClient(t, srv, nil)
	c.ack = true
	c.run(t)
	c.has(t, 10)
	if err := c.stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), testStream); err != nil {
		t.Fatal(err)
	}
	createStream(t, js)
	publish(t, js, "s.a", 20)
	c.run(t)
	c.recreated(t)
	if got := c.entries(); len(got) != 10 {
		t.Errorf("%d deliveries, want the 10 of the first stream", len(got))
	}
}

// A consumer whose metadata differs has a position that means nothing, and is replaced by one at the start of the stream, and so is one without it.
func TestMetadata(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 10)
	read := func(metadata map[string]string, from uint64) {
		t.Helper()
		c := newClient(t, srv, func(cfg *PinnedConfig) { cfg.Metadata = metadata })
		c.ack = true
		c.run(t)
		if from <= 10 {
			contiguous(t, c.has(t, int(11-from)), from, 10)
		}
		natstest.Eventually(t, "the metadata", func(ctx context.Context) error {
			consumer, err := js.Consumer(ctx, testStream, "sink")
			if err != nil {
				return err
			}
			for key, want := range metadata {
				if got := consumer.CachedInfo().Config.Metadata[key]; got != want {
					return fmt.Errorf("%s is %q, want %q", key, got, want)
				}
			}
			if c.Acknowledged() != 10 {
				return fmt.Errorf("acknowledged up to %d, want 10", c.Acknowledged())
			}
			return nil
		})
		if err := c.stop(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		c.Release(t.Context())
	}
	read(nil, 1)
	read(map[string]string{"bucket": "one"}, 1)
	read(map[string]string{"bucket": "one"}, 11)
	read(map[string]string{"bucket": "two"}, 1)
}

// A server that needs 1.2 s for each response: an attach of several requests takes longer than the timeout of one, and succeeds.
func TestSlowServer(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 10)
	proxy := natstest.StartFaultProxy(t, srv.URL)
	proxy.SetResponseFaults(func([]byte) bool { <-time.After(1200 * time.Millisecond); return false })
	slow := natstest.JetStream(t, proxy.URL)
	c := newClient(t, srv, func(cfg *PinnedConfig) { cfg.TakeoverTimeout, cfg.Heartbeat = 20*time.Second, 5*time.Second })
	c.Pinned = NewPinned(jsclient.New(slow), c.cfg)
	c.run(t)
	contiguous(t, c.has(t, 10), 1, 10)
	if err := c.stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}

	o := NewOrdered(jsclient.New(slow), OrderedConfig{Stream: testStream, Filter: "s.>", OpenTimeout: 10 * time.Second})
	defer o.Close()
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An operator has limited requests to less than the reader wants, so the server refuses each of them at once. The reader pauses between its attempts, and
// continues when the limit is gone.
func TestRefusedRequests(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 10)
	c := newClient(t, srv, nil)
	limited := c.consumerConfig()
	limited.MaxRequestExpires = time.Millisecond
	if _, err := js.CreateConsumer(t.Context(), testStream, limited); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.run(t)
	natstest.Eventually(t, "several attempts", func(context.Context) error {
		if n := c.Attached(); n < 8 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	if elapsed := time.Since(began); elapsed < 300*time.Millisecond { // 5 + 10 + 20 + 40 + 80 + 160
		t.Errorf("8 attempts in %s, want a pause between them that grows", elapsed)
	}
	limited.MaxRequestExpires = 0
	if _, err := js.UpdateConsumer(t.Context(), testStream, limited); err != nil {
		t.Fatal(err)
	}
	contiguous(t, c.has(t, 10), 1, 10)
}

// A server before 2.14 cannot reset a consumer: a reader that needs order fails, another one gets the rest after AckWait.
func TestWithoutReset(t *testing.T) {
	srv, js := newStream(t)
	publish(t, js, "s.a", 10)
	old := func(cfg *PinnedConfig) { cfg.AckWait = 3 * time.Second }
	dead := newClient(t, srv, old)
	dead.run(t)
	dead.has(t, 10)
	dead.nc.Close()
	if err := dead.stop(); err == nil {
		t.Fatal("no error without a connection")
	}
	unsupported := func(context.Context) (uint64, error) { return 0, errResetUnsupported }
	strict := newClient(t, srv, old)
	strict.resetConsumer = unsupported
	if err := strict.Run(t.Context(), func(context.Context, []Entry) error { return nil }); !errors.Is(err, ErrConfigMismatch) {
		t.Fatalf("Run: %v, want ErrConfigMismatch", err)
	}
	c := newClient(t, srv, func(cfg *PinnedConfig) { old(cfg); cfg.InOrderOnly = false })
	c.resetConsumer, c.ack = unsupported, true
	c.run(t)
	publish(t, js, "s.a", 5)
	natstest.Eventually(t, "all messages", func(context.Context) error {
		seen := map[uint64]bool{}
		for _, e := range c.entries() {
			seen[e.Seq] = true
		}
		if info := consumerInfo(t, js); len(seen) != 15 || info.NumAckPending > 0 {
			return fmt.Errorf("%d messages, %d not acknowledged", len(seen), info.NumAckPending)
		}
		return nil
	})
}
