package natstest

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// childVariable holds the config of the server that the test binary runs
// instead of tests.
const childVariable = "TRTEST_NATSTEST_SERVER"

// The child writes JSON lines to its standard output: its state after each
// change, and its log. It reads new configurations from its standard input. The
// parent closes the input to shut it down; this also happens if the parent dies.

// report is one line of a child.
type report struct {
	State *state `json:"state,omitempty"`
	Log   string `json:"log,omitempty"`
	Fatal string `json:"fatal,omitempty"` // reason of a failed start
}

// state is the state of a server and its cluster.
type state struct {
	Ready   bool `json:"ready"`   // accepts connections
	Current bool `json:"current"` // caught up with a meta leader; always true for a single server
	Leader  bool `json:"leader"`  // is the meta leader
	Peers   int  `json:"peers"`   // members of the JetStream cluster that are up, as seen by the meta leader; 0 on other nodes

	Reloads int32 `json:"reloads"` // configurations that were read after the start
}

// runChild is the main function of a child and returns its exit code.
func runChild(configJSON string, in io.Reader, out io.Writer) int {
	rep := &reporter{enc: json.NewEncoder(out)}
	var cfg config
	if err := json.Unmarshal([]byte(configJSON), &cfg); err != nil {
		rep.report(report{Fatal: fmt.Sprintf("%s: %v", childVariable, err)})
		return 2
	}
	srv, err := startServer(cfg, &childLog{rep: rep})
	if err != nil {
		rep.report(report{Fatal: err.Error()})
		return 1
	}
	parentGone := make(chan struct{})
	var reloads atomic.Int32
	go func() { // ends with the process at the latest
		defer close(parentGone)
		for dec := json.NewDecoder(in); dec.Decode(&cfg) == nil; reloads.Add(1) { // an error means the end, too
			if err := reload(srv, cfg); err != nil {
				rep.report(report{Fatal: err.Error()})
			}
		}
	}()
	watchState(srv, rep, &reloads, parentGone)
	srv.Shutdown()
	srv.WaitForShutdown()
	return 0
}

// watchState reports each change of the state, until done. It polls because the
// server does not report when a leader is elected.
func watchState(srv *server.Server, rep *reporter, reloads *atomic.Int32, done <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var last state
	for {
		now := state{Ready: true, Current: srv.JetStreamIsCurrent(), Reloads: reloads.Load()}
		if srv.JetStreamIsClustered() { // JetStreamClusterPeers panics on a single server
			now.Leader = srv.JetStreamIsLeader()
			now.Peers = len(srv.JetStreamClusterPeers())
		}
		if now != last {
			last = now
			rep.report(report{State: &now})
		}
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// reporter writes reports. Several goroutines of the server use it.
type reporter struct {
	mu  sync.Mutex // guards enc
	enc *json.Encoder
}

func (s *reporter) report(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.enc.Encode(r) //nolint:errchkjson // if the parent is gone, standard input ends as well
}

// childLog sends the log of a child to its parent.
type childLog struct {
	logTail

	rep *reporter
}

func (l *childLog) send(level, format string, v []any) {
	l.add(level, format, v)
	l.rep.report(report{Log: level + " " + fmt.Sprintf(format, v...)})
}

func (l *childLog) Noticef(format string, v ...any) { l.send("INF", format, v) }
func (l *childLog) Warnf(format string, v ...any)   { l.send("WRN", format, v) }
func (l *childLog) Errorf(format string, v ...any)  { l.send("ERR", format, v) }
func (l *childLog) Fatalf(format string, v ...any)  { l.send("FTL", format, v) }
