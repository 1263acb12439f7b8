package jscontrol

import (
	"sync/atomic"

	"github.com/tailrace/tailrace/internal/control"
)

// inProgress is the newest delivery of a command that this process is running.
//
// The server may redeliver it to this process: the server was unavailable for longer than AckWait and received no progress messages. Without this:
//  1. the second delivery starts a second handler,
//  2. which takes the run over from the first, in the same process,
//  3. and every reader sees the last step disappear and reappear.
type inProgress = atomic.Pointer[delivery]

// commandKey identifies a stored command. The id alone does not:
//  1. a session is deleted while this process runs its command, in a model call that takes an hour,
//  2. the session is requested again: the new command has the same id,
//  3. it is taken for a redelivery, waits for the old handler, and is acknowledged by it.
type commandKey struct {
	id       string
	sequence uint64
}

// keyOf returns the key of a delivery of c.
func keyOf(c control.Command, msg delivery) commandKey {
	key := commandKey{id: c.ID()}
	if meta, err := msg.Metadata(); err == nil {
		key.sequence = meta.Sequence.Stream
	}
	return key
}

// begin records that msg is the newest delivery of a command, and reports whether it is the first: then the caller handles it, and calls end.
func (s *server) begin(key commandKey, msg delivery) (newest *inProgress, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest, ok := s.running[key]
	if !ok {
		newest = &inProgress{}
		s.running[key] = newest
	}
	newest.Store(&msg)
	return newest, !ok
}

// end removes the command and returns its newest delivery, which is the one to acknowledge.
func (s *server) end(key commandKey) *delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := s.running[key]
	delete(s.running, key)
	return newest.Load()
}
