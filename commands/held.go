package commands

import (
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// held is a command that this process is at work on.
//
// The server may deliver it again to us while we are: it was away for longer
// than AckWait, heard no sign of life, and now wants somebody to do it. That
// somebody is still there. Without this:
//  1. the second delivery starts a second handler,
//  2. which takes the run over from the first, in the same process,
//  3. and every reader sees the last step disappear and come again.
type held struct {
	mu     sync.Mutex // guards latest
	latest jetstream.Msg
}

func (h *held) newest() jetstream.Msg {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest
}

// hold notes that msg is the newest delivery of the command id, and reports
// whether it is the first: then the caller handles it, and releases it.
func (s *server) hold(id string, msg jetstream.Msg) (*held, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held[id]; ok {
		h.mu.Lock()
		h.latest = msg
		h.mu.Unlock()
		return h, false
	}
	h := &held{latest: msg}
	s.held[id] = h
	return h, true
}

// release ends a hold and returns the newest delivery, the one to settle.
func (s *server) release(id string) jetstream.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[id]
	delete(s.held, id)
	return h.newest()
}
