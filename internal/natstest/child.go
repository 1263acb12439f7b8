package natstest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// childVariable holds the config of the server that the test binary is to be.
const childVariable = "TAILRACE_NATSTEST_SERVER"

// The child speaks JSON lines on its standard output: its state whenever that
// changes, and its log. The parent speaks by letting the child's standard input
// end, which means "shut down", and happens by itself when the parent dies.

// report is one line of a child.
type report struct {
	State *state `json:"state,omitempty"`
	Log   string `json:"log,omitempty"`
	Fatal string `json:"fatal,omitempty"` // why it did not start
}

// state is what a server knows about itself and its cluster.
type state struct {
	Ready   bool `json:"ready"`   // takes connections
	Current bool `json:"current"` // has a meta leader and caught up with it; a single server always has
	Leader  bool `json:"leader"`  // is the meta leader
	Peers   int  `json:"peers"`   // members of the JetStream cluster that are up, as the meta leader sees it; 0 elsewhere
}

// runChild is the main function of a child and returns its exit code.
func runChild(configJSON string, in io.Reader, out io.Writer) int {
	say := &speaker{enc: json.NewEncoder(out)}
	var cfg config
	if err := json.Unmarshal([]byte(configJSON), &cfg); err != nil {
		say.report(report{Fatal: fmt.Sprintf("%s: %v", childVariable, err)})
		return 2
	}
	srv, err := startServer(cfg, &childLog{say: say})
	if err != nil {
		say.report(report{Fatal: err.Error()})
		return 1
	}
	parentGone := make(chan struct{})
	go func() { // ends with the process, at the latest
		defer close(parentGone)
		_, _ = io.Copy(io.Discard, bufio.NewReader(in)) // an error is an end as well
	}()
	watchState(srv, say, parentGone)
	srv.Shutdown()
	srv.WaitForShutdown()
	return 0
}

// watchState reports the state when it changes, until done. It asks the server
// in a loop because the server tells nobody when a leader is found.
func watchState(srv *server.Server, say *speaker, done <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var last state
	for {
		now := state{Ready: true, Current: srv.JetStreamIsCurrent()}
		if srv.JetStreamIsClustered() { // JetStreamClusterPeers panics on a single server
			now.Leader = srv.JetStreamIsLeader()
			now.Peers = len(srv.JetStreamClusterPeers())
		}
		if now != last {
			last = now
			say.report(report{State: &now})
		}
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// speaker writes reports, from several goroutines of the server.
type speaker struct {
	mu  sync.Mutex // guards enc
	enc *json.Encoder
}

func (s *speaker) report(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.enc.Encode(r) //nolint:errchkjson // when the parent is gone, the end of standard input says so too
}

// childLog sends the log of a child to its parent.
type childLog struct {
	logTail

	say *speaker
}

func (l *childLog) send(level, format string, v []any) {
	l.add(level, format, v)
	l.say.report(report{Log: level + " " + fmt.Sprintf(format, v...)})
}

func (l *childLog) Noticef(format string, v ...any) { l.send("INF", format, v) }
func (l *childLog) Warnf(format string, v ...any)   { l.send("WRN", format, v) }
func (l *childLog) Errorf(format string, v ...any)  { l.send("ERR", format, v) }
func (l *childLog) Fatalf(format string, v ...any)  { l.send("FTL", format, v) }
