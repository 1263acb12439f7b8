package consumers

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// maxMergeSessions is the number of sessions up to which the history of a tree is read session by session, docs/adr/0008-small-trees-are-read-by-session.md. A
// consumer with one literal subject skips the blocks of the stream without messages of that subject; a wildcard examines every message. But each consumer scans
// the stream separately, so one wildcard, which scans the stream once, is cheaper for many sessions that ran at the same time.
//
// One consumer with a list of subjects is not an alternative: the server scans the stream once for every subject of the list, and under load ends early.
const maxMergeSessions = 4

// mergeReader reads the sessions of a small tree in parallel, up to the end that the stream had when they were listed, and merges them in the order of the
// stream.
//
// The list comes from the leader, which reads the end of the stream first and then the subjects that have messages. So a session that is not listed has
// no message up to that end, and the merge ends there. Otherwise:
//  1. the list has the root, and the log ends at 100,
//  2. a sub-agent starts; its first record is 101; the root writes 102,
//  3. the merge returns 102 of the root; the client stores it as its cursor, and never gets 101.
type mergeReader struct {
	end  uint64
	open []*sessionReader
}

// sessionReader reads one session and holds its next message.
type sessionReader struct {
	*jsreader.Ordered

	head   jsreader.Entry
	loaded bool
}

// openTree attaches the read of a tree: session by session if it is small.
func (rd *readState) openTree(ctx context.Context) error {
	state, sessions, err := rd.list(ctx)
	switch {
	case err != nil:
		return err
	case rd.after.Seq > chunk.Seq(state.Last):
		return rd.truncated(chunk.TruncatedFuture, chunk.Seq(state.First))
	case len(sessions) > maxMergeSessions:
		return rd.openOrdered(ctx)
	case len(sessions) == 0:
		sessions = []string{rd.root}
	}
	return rd.attachAll(ctx, sessions, state)
}

// list returns the subjects of the tree and the end up to which the list is complete.
func (rd *readState) list(ctx context.Context) (state jsclient.State, sessions []string, err error) {
	state, err = retry(ctx, rd.Reader, rd.cfg.OpenTimeout, func(ctx context.Context) (jsclient.State, error) {
		return rd.client.State(ctx, rd.stream, rd.filter)
	})
	return state, slices.Sorted(maps.Keys(state.Subjects)), err
}

// attachAll attaches a reader to each session, after the end of the merge is known: a consumer that is older may end before it. ordered
// is the last of them; nothing is delivered before all are attached.
func (rd *readState) attachAll(ctx context.Context, sessions []string, state jsclient.State) error {
	rd.state, rd.merge = state, &mergeReader{end: state.Last}
	for _, subject := range sessions {
		sr := &sessionReader{Ordered: rd.newOrdered(jsreader.OrderedConfig{
			Stream: rd.stream, Filter: subject, After: uint64(rd.after.Seq), Epoch: state.Epoch, Share: len(sessions), Count: state.Subjects[subject], Counted: state,
			OpenTimeout: rd.cfg.OpenTimeout,
		})}
		rd.merge.open = append(rd.merge.open, sr)
		rd.ordered = sr.Ordered
		if err := sr.Open(ctx); err != nil {
			return err
		}
		rd.state = sr.State()
	}
	// The first requests, so that the server works for all readers while the merge waits for the first.
	for _, sr := range rd.merge.open {
		if err := sr.Prefetch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// followLive follows a tree after the end of its merge with a wildcard, which also matches the sub-agents that start later. So near to the end of the stream
// the server has few messages to scan.
func (rd *readState) followLive(ctx context.Context) error {
	end := rd.merge.end
	rd.merge.close()
	rd.merge = nil
	rd.ordered = rd.newOrdered(jsreader.OrderedConfig{Stream: rd.stream, Filter: rd.filter, After: end, Epoch: rd.state.Epoch, Live: true})
	rd.ordered.Resume()
	if err := rd.ordered.Open(ctx); err != nil {
		return err
	}
	rd.state = rd.ordered.State()
	rd.watchForEnd()
	return nil
}

// endOfHistory returns jsreader.ErrEnd, unless the read continues live.
func (rd *readState) endOfHistory(ctx context.Context) error {
	if !rd.live {
		return jsreader.ErrEnd
	}
	if err := rd.followLive(ctx); err != nil {
		return err
	}
	switch {
	case rd.ordered.Remaining() > 0 || rd.keepOpen:
		return nil
	case rd.last == 0: // all messages were malformed
		return rd.errEmptyScope()
	}
	return rd.ended(ctx)
}

// left returns how many messages are left by the count of the server.
func (m *mergeReader) left() (n uint64) {
	for _, sr := range m.open {
		n += sr.Remaining()
		if sr.loaded {
			n++
		}
	}
	return n
}

// next returns the message with the lowest sequence that was not returned yet; jsreader.ErrEnd at the end.
func (m *mergeReader) next(ctx context.Context) (jsreader.Entry, error) {
	var first *sessionReader
	for _, sr := range slices.Backward(m.open) { // from the end: load removes readers that are done
		if err := m.load(ctx, sr); err != nil {
			return jsreader.Entry{}, err
		}
		if sr.loaded && (first == nil || sr.head.Seq < first.head.Seq) {
			first = sr
		}
	}
	if first == nil || first.head.Seq > m.end {
		return jsreader.Entry{}, jsreader.ErrEnd
	}
	first.loaded = false
	e := first.head
	e.Pending = m.left()
	return e, nil
}

// load makes sure that a reader has its next message, or removes it.
func (m *mergeReader) load(ctx context.Context, sr *sessionReader) (err error) {
	for !sr.loaded {
		if sr.head, err = sr.Next(ctx); err == nil {
			sr.loaded = true
			return nil
		}
		if errors.Is(err, jsreader.ErrEnd) {
			err = sr.ConfirmEnd(ctx, m.end)
		}
		if errors.Is(err, jsreader.ErrEnd) {
			sr.Close()
			m.open = slices.DeleteFunc(m.open, func(other *sessionReader) bool { return other == sr })
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *mergeReader) close() {
	for _, sr := range m.open {
		sr.Close()
	}
	m.open = nil
}
