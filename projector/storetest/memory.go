package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// Memory is a projector.Store in memory. Its hooks let a test fail it.
type Memory struct {
	// Limit is how many bytes a value may have; 0 is no limit.
	Limit int

	// Fault, if not nil, is asked before each step of a call: "load",
	// "messages", "message", "head" and, after the head is stored, "stored". An
	// error ends the call there, as the death of a process or a lost answer does.
	Fault func(step string) error

	mu       sync.Mutex // guards what follows
	heads    map[chunk.Session]head
	messages map[messageName][]byte
	revision projector.Revision
	writes   int
	reads    int
}

type head struct {
	data     []byte
	revision projector.Revision
}

type messageName struct {
	session    chunk.Session
	index      int
	generation chunk.Ordinal
}

// NewMemory is an empty store.
func NewMemory() *Memory {
	return &Memory{heads: make(map[chunk.Session]head), messages: make(map[messageName][]byte)}
}

func (m *Memory) fault(step string) error {
	if m.Fault == nil {
		return nil
	}
	return m.Fault(step)
}

// Load implements projector.Store.
func (m *Memory) Load(ctx context.Context, s chunk.Session) (fold.Snapshot, projector.Revision, error) {
	if err := m.fault("load"); err != nil {
		return fold.Snapshot{}, 0, err
	}
	m.mu.Lock()
	h, ok := m.heads[s]
	m.mu.Unlock()
	if !ok {
		return fold.Snapshot{}, 0, projector.ErrNoSnapshot
	}
	snap, err := fold.ParseHead(h.data)
	if err != nil {
		return snap, h.revision, fmt.Errorf("%w: %w", projector.ErrDamaged, err)
	}
	return snap, h.revision, ctx.Err()
}

// Messages implements projector.Store.
func (m *Memory) Messages(ctx context.Context, snap fold.Snapshot) ([][]byte, error) {
	return m.Range(ctx, snap, 0, 0, snap.Missing())
}

// Range implements projector.Store. A message has one content here, so every
// head may have it.
func (m *Memory) Range(ctx context.Context, snap fold.Snapshot, _ projector.Revision, from, to int) ([][]byte, error) {
	if err := m.fault("messages"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data := make([][]byte, to-from)
	for i := range data {
		n := from + i
		d, ok := m.messages[messageName{snap.Session, n, snap.Generation(n)}]
		if !ok {
			return nil, fmt.Errorf("%w: message %d is missing", fold.ErrTorn, n)
		}
		data[i] = d
	}
	m.reads += len(data)
	return data, ctx.Err()
}

// Save implements projector.Store.
func (m *Memory) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	data := snap.AppendHead(nil)
	if m.Limit > 0 && len(data) > m.Limit {
		return 0, &projector.TooLargeError{Session: snap.Session, What: "head", Size: len(data), Limit: m.Limit}
	}
	for _, f := range snap.Finished() {
		if m.Limit > 0 && len(f.Data) > m.Limit {
			return 0, &projector.TooLargeError{Session: snap.Session, What: fmt.Sprintf("message %d", f.Index), Size: len(f.Data), Limit: m.Limit}
		}
		if err := m.fault("message"); err != nil {
			return 0, err
		}
		if err := m.write(messageName{snap.Session, f.Index, f.Generation}, f.Data); err != nil {
			return 0, err
		}
	}
	if err := m.fault("head"); err != nil {
		return 0, err
	}
	revision, err := m.replace(snap.Session, data, after)
	if err == nil {
		err = m.fault("stored")
	}
	return revision, err
}

// write stores a message. Two contents under one name would be a bug of the
// fold: a head that counts the first would be torn.
func (m *Memory) write(name messageName, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if had, ok := m.messages[name]; ok && !bytes.Equal(had, data) {
		return fmt.Errorf("message %d of generation %d has two contents:\n%s\n%s", name.index, name.generation, had, data)
	}
	m.messages[name] = append([]byte(nil), data...)
	m.writes++
	return nil
}

func (m *Memory) replace(s chunk.Session, data []byte, after projector.Revision) (projector.Revision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.heads[s].revision != after {
		return 0, projector.ErrConflict
	}
	m.revision++
	m.heads[s] = head{data: data, revision: m.revision}
	m.writes++
	return m.revision, nil
}

// Forget loses everything stored of a session, as a bucket that is deleted.
func (m *Memory) Forget(s chunk.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.heads, s)
	m.forgetMessages(s)
}

// Tear loses the finished messages of a session, as a replica that lags does.
func (m *Memory) Tear(s chunk.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetMessages(s)
}

func (m *Memory) forgetMessages(s chunk.Session) {
	for name := range m.messages {
		if name.session == s {
			delete(m.messages, name)
		}
	}
}

// Spoil replaces the head of a session by data that is none.
func (m *Memory) Spoil(s chunk.Session, data string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	m.heads[s] = head{data: []byte(data), revision: m.revision}
}

// Writes counts the values written.
func (m *Memory) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// Reads counts the finished messages read.
func (m *Memory) Reads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads
}
