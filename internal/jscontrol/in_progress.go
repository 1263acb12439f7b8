package jscontrol

import (
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// inProgress is a command that this process is running.
//
// The server may redeliver it to this process: the server was unavailable for longer than AckWait and received no progress messages. Without this:
//  1. the second delivery starts a second handler,
//  2. which takes the run over from the first, in the same process,
//  3. and every reader sees the last step disappear and reappear.
type inProgress struct {
	mu     sync.Mutex // guards latest
	latest jetstream.Msg
}

func (h *inProgress) newest() jetstream.Msg {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest
}

// begin records that msg is the newest delivery of the command id, and reports whether it is the first: then the caller handles it, and calls end.
func (s *server) begin(id string, msg jetstream.Msg) (*inProgress, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held[id]; ok {
		h.mu.Lock()
		h.latest = msg
		h.mu.Unlock()
		return h, false
	}
	h := &inProgress{latest: msg}
	s.held[id] = h
	return h, true
}

// end removes the command and returns its newest delivery, which is the one to acknowledge.
func (s *server) end(id string) jetstream.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[id]
	delete(s.held, id)
	return h.newest()
}
