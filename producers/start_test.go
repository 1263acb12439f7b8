package producers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
)

func TestARunAfterARun(t *testing.T) {
	type want struct {
		execute  error // the run_started record of mode "execute"
		position chunk.Position
	}
	for name, tc := range map[string]struct {
		before func(l *fakeLog)
		want   want
	}{
		"in an empty session": {
			before: func(*fakeLog) {},
			want:   want{position: chunk.Position{Seq: 3, Ordinal: 1}},
		},
		"after an end": {
			before: func(l *fakeLog) { l.putOther(4, 9, chunk.Chunk{Body: chunk.StreamEnd{StreamID: "s1"}}) },
			want:   want{position: chunk.Position{Seq: 6, Ordinal: 10}},
		},
		"after a failure": {
			before: func(l *fakeLog) { l.putOther(4, 9, chunk.Chunk{Body: chunk.StreamFailed{Error: "x"}}) },
			want:   want{position: chunk.Position{Seq: 6, Ordinal: 10}},
		},
		"after a pause": {
			before: func(l *fakeLog) { l.putOther(4, 9, chunk.Chunk{Body: chunk.StreamPaused{}}) },
			want:   want{position: chunk.Position{Seq: 6, Ordinal: 10}},
		},
		"in the middle of one": {
			before: func(l *fakeLog) { l.putOther(4, 9, chunk.Chunk{Body: chunk.TextDelta{Delta: "x"}}) },
			want:   want{execute: ErrRunning, position: chunk.Position{Seq: 6, Ordinal: 10}},
		},
		"right after a run_started": {
			before: func(l *fakeLog) {
				l.putOther(4, 9, chunk.Chunk{Body: chunk.RunStarted{RunID: "x", Epoch: 4, Mode: "execute"}})
			},
			want: want{execute: ErrRunning, position: chunk.Position{Seq: 6, Ordinal: 10}},
		},
		"right after a reopened stream": {
			before: func(l *fakeLog) { l.putOther(4, 9, chunk.Chunk{Body: chunk.StreamActive{}}) },
			want:   want{execute: ErrRunning, position: chunk.Position{Seq: 6, Ordinal: 10}},
		},
		"after an end and a malformed message": {
			before: func(l *fakeLog) {
				l.putOther(4, 8, chunk.Chunk{Body: chunk.TextDelta{Delta: "x"}})
				l.putOther(4, 9, chunk.Chunk{Body: chunk.StreamEnd{StreamID: "s1"}})
				l.appendMalformed()
			},
			want: want{position: chunk.Position{Seq: 12, Ordinal: 10}},
		},
		"in the middle of one with a malformed message": {
			before: func(l *fakeLog) {
				l.putOther(4, 9, chunk.Chunk{Body: chunk.TextDelta{Delta: "x"}})
				l.appendMalformed()
				l.appendMalformed()
			},
			want: want{execute: ErrRunning, position: chunk.Position{Seq: 12, Ordinal: 10}},
		},
		"with a record of a fenced writer among the last, and a malformed message": {
			before: func(l *fakeLog) {
				l.putOther(4, 9, chunk.Chunk{Body: chunk.StreamEnd{StreamID: "s1"}})
				l.putOther(3, 5, chunk.Chunk{Body: chunk.TextDelta{Delta: "x"}})
				l.appendMalformed()
			},
			want: want{position: chunk.Position{Seq: 12, Ordinal: 10}},
		},
		"with only malformed messages": {
			before: func(l *fakeLog) { l.appendMalformed() },
			want:   want{position: chunk.Position{Seq: 6, Ordinal: 1}},
		},
	} {
		for _, mode := range []string{"execute", "takeover"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newFakeLog(t, testSession)
					tc.before(l)
					before := len(l.msgs)
					r, err := tryStart(t, l, Config{}, chunk.RunStarted{Mode: mode}, mode == modeTakeover)
					if mode == modeExecute && tc.want.execute != nil {
						var running *RunningError
						if !errors.Is(err, tc.want.execute) || !errors.Is(err, chunk.ErrNotStored) || !errors.As(err, &running) || running.Epoch != 4 {
							t.Errorf("err = %v, want %v at epoch 4", err, tc.want.execute)
						}
						if len(l.msgs) != before {
							t.Error("something was written")
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if r.Position() != tc.want.position {
						t.Errorf("position %+v, want %+v", r.Position(), tc.want.position)
					}
					if want := chunk.Epoch(5); tc.want.position.Ordinal == 10 && r.Epoch() != want {
						t.Errorf("epoch %d, want %d", r.Epoch(), want)
					}
					if _, err := r.Write(t.Context(), numbered(1)); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// appendMalformed appends a malformed message to the session.
func (l *fakeLog) appendMalformed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(nil, []byte("hello?"))
}

type heads struct {
	pos   chunk.Position
	epoch chunk.Epoch
	bytes int64
	err   error
	calls int
}

func (h *heads) StoredPosition(context.Context, chunk.Session) (chunk.Position, chunk.Epoch, int64, error) {
	h.calls++
	return h.pos, h.epoch, h.bytes, h.err
}

// The records of the session have expired, and its snapshot has not: ordinals and epochs continue, because readers of the snapshot would otherwise take new
// records for old ones.
func TestAnExpiredSessionContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		h := &heads{pos: chunk.Position{Seq: 77, Ordinal: 41}, epoch: 6}
		r := startOn(t, l, Config{Positions: h})
		if r.Epoch() != 7 || r.Position().Ordinal != 42 {
			t.Errorf("epoch %d, ordinal %d, want 7 and 42", r.Epoch(), r.Position().Ordinal)
		}
		if err := r.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		h.calls = 0
		if r := startOn(t, l, Config{Positions: h}); r.Epoch() != 8 || h.calls != 0 {
			t.Errorf("epoch %d with %d looks at the snapshot, want 8 and none", r.Epoch(), h.calls)
		}
	})
}

// A run does not start while the stored position cannot be read.
func TestASnapshotThatCannotBeReadStopsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		broken := errors.New("the bucket is unavailable")
		h := &heads{err: broken}
		begin := time.Now()
		_, err := tryStart(t, l, Config{Positions: h, RetryTimeout: 5 * time.Second}, chunk.RunStarted{Mode: "execute"}, false)
		if !errors.Is(err, broken) || !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("err = %v", err)
		}
		if h.calls < 2 || time.Since(begin) > 7*time.Second {
			t.Errorf("%d looks in %s, want several in some five seconds", h.calls, time.Since(begin))
		}
	})
}

// A last record with the largest epoch, which only a malicious program writes, blocks the session and nothing else.
func TestEpochsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		l.putOther(1<<64-1, 1, chunk.Chunk{Body: chunk.StreamEnd{StreamID: "s1"}})
		_, err := tryStart(t, l, Config{}, chunk.RunStarted{Mode: "execute"}, false)
		if !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("err = %v, want invalid", err)
		}
	})
}

// The run_started record is stored once, whatever happens to its attempts.
func TestStartWithFaults(t *testing.T) {
	for name, f := range map[string]fault{
		"lost acknowledgement": {after: nats.ErrTimeout},
		"late arrival":         {late: 3 * time.Second, after: nats.ErrTimeout},
		"broken connection":    {before: nats.ErrDisconnected},
		"busy":                 {before: api(codeBusy)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				l.fault = times(3, f)
				r := startOn(t, l, Config{})
				time.Sleep(time.Minute)
				if len(l.msgs) != 1 || r.Position() != l.records()[0].Position() {
					t.Errorf("%d records, position %+v", len(l.msgs), r.Position())
				}
			})
		})
	}
}

// Two equal concurrent starts, as after a second delivery of a command, have the same run id, the same bytes and the same ce-id. The acknowledgement of the
// first is lost. Each must identify its own record.
func TestEqualStartsAreDistinguished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		l.fault = func(n int, _ outgoing) fault {
			if n == 1 {
				return fault{after: nats.ErrTimeout}
			}
			return fault{}
		}
		_ = startOn(t, l, Config{})
		first, err := l.last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		copied := &nats.Msg{Header: map[string][]string{}, Data: first.data}
		maps.Copy(copied.Header, first.header)
		if !isStoredAs(copied, first) {
			t.Error("it does not know itself")
		}
		copied.Header[headerWriter] = []string{newID()}
		if isStoredAs(copied, first) {
			t.Error("it takes another's run_started for its own")
		}
	})
}

// Of many concurrent starts one gets an idle session; with TakeOver all start one after the other, each with its own epoch.
func TestRacingStarts(t *testing.T) {
	for _, mode := range []string{modeExecute, modeTakeover} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				l.t = t
				var all sync.WaitGroup
				var mu sync.Mutex
				epochs := map[chunk.Epoch]bool{}
				refused := 0
				for i := range 10 {
					all.Go(func() {
						r := newRun(withoutPositions(Config{}).withDefaults(), l.s, &concurrentLog{fakeLog: l}, startOptions{agentType: "a"})
						defer r.Close()
						err := r.start(t.Context(), chunk.RunStarted{RunID: fmt.Sprint(i), Mode: mode}, startOptions{takeOver: mode == modeTakeover})
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							epochs[r.Epoch()] = true
						case errors.Is(err, ErrRunning):
							refused++
						default:
							t.Error(err)
						}
					})
				}
				all.Wait()
				want := 1
				if mode == modeTakeover {
					want = 10
				}
				if len(epochs) != want || len(l.msgs) != want || refused != 10-want {
					t.Errorf("%d epochs, %d records, %d refused; want %d, %d, %d", len(epochs), len(l.msgs), refused, want, want, 10-want)
				}
				for i, rec := range l.records() {
					if rec.Epoch != chunk.Epoch(i+1) || rec.Ordinal != chunk.Ordinal(i+1) {
						t.Errorf("record %d has epoch %d, ordinal %d", i, rec.Epoch, rec.Ordinal)
					}
				}
			})
		})
	}
}

// concurrentLog is a fakeLog for several writers: publishes may overlap.
type concurrentLog struct{ *fakeLog }

func (l *concurrentLog) publish(_ context.Context, m outgoing, _ <-chan struct{}) (chunk.Seq, error) {
	return l.store(m)
}

func TestConfigErrors(t *testing.T) {
	for want, cfg := range map[string]Config{
		"MaxDelta is -1":         {MaxDelta: -1},
		"MaxQueue is -1":         {MaxQueue: -1},
		"MaxQueueBytes is -1":    {MaxQueueBytes: -1},
		"MaxChunk is 10":         {MaxChunk: 10},
		"AttemptTimeout is -1ns": {AttemptTimeout: -1},
		"RetryTimeout is -1ns":   {RetryTimeout: -1},
		"Format is 9":            {Format: 9},
		"Layout: Partition":      {Layout: badLayout()},
	} {
		if err := withoutPositions(cfg).withDefaults().validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
	if err := withoutPositions(Config{}).withDefaults().validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if err := (Config{}).withDefaults().validate(); err == nil || !strings.Contains(err.Error(), "Positions is nil") {
		t.Errorf("without positions: err = %v", err)
	}
	for _, off := range []time.Duration{Off, -time.Second} {
		cfg := withoutPositions(Config{Pace: off}).withDefaults()
		if err := cfg.validate(); err != nil {
			t.Errorf("pace %s: %v", off, err)
		}
		if got := newRun(cfg, testSession, nil, startOptions{}).queue.pace; got > 0 {
			t.Errorf("pace %s: a delta is delayed by %s", off, got)
		}
	}
}
