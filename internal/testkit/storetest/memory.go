package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// Memory is a projector.Store in memory. Tests can make it fail.
type Memory struct {
	// Limit is the maximum size of a value in bytes; 0 is unlimited.
	Limit int

	// Fault, if not nil, is called before each step of a call: "load", "messages", "message", "head" and, after the head is
	// stored, "stored". An error ends the call at that step, like a crash or a lost response.
	Fault func(step string) error

	mu       sync.Mutex // guards the fields below
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

// NewMemory returns an empty store.
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
	if err := projector.CountRead(ctx, len(h.data)); err != nil {
		return fold.Snapshot{}, h.revision, err
	}
	snap, err := fold.ParseHead(h.data)
	if err != nil {
		return snap, h.revision, fmt.Errorf("%w: %w", projector.ErrCorrupt, err)
	}
	return snap, h.revision, ctx.Err()
}

// Messages implements projector.Store.
func (m *Memory) Messages(ctx context.Context, snap fold.Snapshot) ([][]byte, error) {
	return m.Range(ctx, snap, 0, 0, snap.TrimmedCount())
}

// Range implements projector.Store. Here a message has only one content, so it belongs to every head.
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
			return nil, fmt.Errorf("%w: message %d is missing", fold.ErrInconsistent, n)
		}
		data[i] = d
		if err := projector.CountRead(ctx, len(d)); err != nil {
			return nil, err
		}
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
		return 0, &projector.TooLargeError{Session: snap.Session, Object: "head", Size: len(data), Limit: m.Limit}
	}
	for _, p := range snap.Packs() {
		for _, f := range p {
			if m.Limit > 0 && len(f.Data) > m.Limit {
				return 0, &projector.TooLargeError{Session: snap.Session, Object: fmt.Sprintf("message %d", f.Index), Size: len(f.Data), Limit: m.Limit}
			}
			if err := m.fault("message"); err != nil {
				return 0, err
			}
			if err := m.write(messageName{snap.Session, f.Index, f.Generation}, f.Data); err != nil {
				return 0, err
			}
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

// write stores a message. Two contents with one name would be a bug of the fold: the head that counts the first would be
// inconsistent.
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

// DropSession deletes all stored data of a session, like the deletion of a bucket.
func (m *Memory) DropSession(s chunk.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.heads, s)
	m.deleteMessages(s)
}

// DropMessages deletes the finished messages of a session, like a replica that lags.
func (m *Memory) DropMessages(s chunk.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deleteMessages(s)
}

func (m *Memory) deleteMessages(s chunk.Session) {
	for name := range m.messages {
		if name.session == s {
			delete(m.messages, name)
		}
	}
}

// CorruptHead replaces the head of a session by invalid data.
func (m *Memory) CorruptHead(s chunk.Session, data string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	m.heads[s] = head{data: []byte(data), revision: m.revision}
}

// Writes returns the number of values written.
func (m *Memory) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// Reads returns the number of finished messages read.
func (m *Memory) Reads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads
}

// OwnedByOther implements projector.Store. The store has no index of owners.
func (m *Memory) OwnedByOther(context.Context, chunk.Session, string) (bool, error) {
	return false, nil
}

// Value implements projector.Store. The store has no large values.
func (m *Memory) Value(context.Context, chunk.Session, string) ([]byte, string, error) {
	return nil, "", chunk.ErrUnknownValue
}
