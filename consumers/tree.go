package consumers

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// mostStrands is the number of sessions up to which the history of a tree is
// read session by session. docs/adr/0008 has the figures. A consumer with one
// literal subject passes over blocks of the stream that have nothing of it; a
// wildcard looks at every message on the way. But each consumer walks the way
// for itself, so many sessions that ran side by side are cheaper by one
// wildcard, which walks it once.
//
// One consumer with a list of subjects would be a third way. It is none: the
// server walks the way once for every subject of the list, and under load ends
// early.
const mostStrands = 4

// strands read the sessions of a small tree side by side, through the end that
// the stream had when they were listed, and give what they read in the order of
// the stream.
//
// The list comes from the leader, which looks up the end of the stream first
// and then the subjects that have messages. So a session that is not listed has
// nothing up to that end, and the strands give nothing beyond it. Otherwise:
//  1. the list has the root, and the log ends at 100,
//  2. a sub-agent is born, its first record is 101; the root writes 102,
//  3. the root's strand gives 102, the reader keeps it as its cursor, and never
//     sees 101.
type strands struct {
	*Reader

	end  chunk.Seq
	open []*strand
}

// strand is one session, and the message of it that comes next.
type strand struct {
	*tape

	shelf  *shelf // what it is read from instead of the tape, which is not open then
	head   entry
	loaded bool
}

// openTree begins the read of a tree.
func (rd *reading) openTree(ctx context.Context) error {
	state, sessions, err := rd.list(ctx)
	switch {
	case err != nil:
		return err
	case rd.after.Seq > state.last:
		return rd.truncated(chunk.TruncatedFuture, state.first)
	case len(sessions) > mostStrands:
		return rd.openTape(ctx)
	case len(sessions) == 0:
		sessions = []string{rd.root}
	}
	return rd.spread(ctx, sessions, state)
}

// list is the subjects of the tree and the end that the list is good for.
func (rd *reading) list(ctx context.Context) (state streamState, sessions []string, err error) {
	err = rd.api.retry(ctx, rd.cfg.Patience, func(ctx context.Context) (err error) {
		var counts map[string]uint64
		state, counts, err = rd.api.list(ctx, rd.stream, rd.filter)
		sessions = slices.Sorted(maps.Keys(counts))
		return err
	})
	return state, sessions, err
}

// spread attaches a strand to each session, now that the end is known through
// which they are to be read: a consumer that is older may be short of it. tape is
// the last of them; before it nothing is given out.
func (rd *reading) spread(ctx context.Context, sessions []string, state streamState) error {
	rd.strands = &strands{Reader: rd.Reader, end: state.last}
	for _, subject := range sessions {
		rd.tape = rd.newTape(tapeSpec{stream: rd.stream, filter: subject, after: rd.after.Seq, share: len(sessions), patience: rd.cfg.Patience})
		rd.tape.mark.created = state.created
		rd.strands.open = append(rd.strands.open, &strand{tape: rd.tape})
		if err := rd.tape.open(ctx); err != nil {
			return err
		}
	}
	return rd.strands.ask(ctx)
}

// goLive follows a tree from where its strands ended. A wildcard it is now: it
// brings the sub-agents that are born later, and near the end of the stream
// there is no way to walk.
func (rd *reading) goLive(ctx context.Context) error {
	from := bookmark{created: rd.tape.state.created, seq: rd.strands.end}
	rd.strands.close()
	rd.strands = nil
	rd.tape = rd.newTape(tapeSpec{stream: rd.stream, filter: rd.filter, after: from.seq, live: true})
	rd.tape.mark, rd.tape.begun = from, true
	if err := rd.tape.open(ctx); err != nil {
		return err
	}
	rd.watchForTheEnd()
	return nil
}

// endOfHistory: errEnd, unless the read goes on live.
func (rd *reading) endOfHistory(ctx context.Context) error {
	if !rd.live {
		return errEnd
	}
	if err := rd.goLive(ctx); err != nil {
		return err
	}
	switch {
	case rd.tape.left > 0 || rd.options.keepOpen:
		return nil
	case rd.last == 0: // there were messages, and no record
		return rd.nothingThere()
	}
	return rd.ended(ctx)
}

// ask sends the first request of every strand, so that the server works for
// all of them while the first is waited for.
func (s *strands) ask(ctx context.Context) error {
	for _, st := range s.open {
		if st.shelf != nil {
			continue
		}
		if err := st.ask(); err != nil {
			if err := st.reset(ctx, err.Error()); err != nil {
				return err
			}
		}
	}
	return nil
}

// left is how many messages lie ahead by the server's count.
func (s *strands) left() (n uint64) {
	for _, st := range s.open {
		n += st.left
		if st.loaded {
			n++
		}
	}
	return n
}

// next is the earliest message that no strand has given yet; errEnd at the end.
func (s *strands) next(ctx context.Context) (entry, error) {
	var first *strand
	for _, st := range slices.Backward(s.open) { // from the end: load takes out who is done
		if err := s.load(ctx, st); err != nil {
			return entry{}, err
		}
		if st.loaded && (first == nil || st.head.seq < first.head.seq) {
			first = st
		}
	}
	if first == nil || first.head.seq > s.end {
		return entry{}, errEnd
	}
	first.loaded = false
	e := first.head
	e.pending = s.left()
	return e, nil
}

// load makes sure that a strand has its next message, or has gone.
func (s *strands) load(ctx context.Context, st *strand) (err error) {
	for !st.loaded {
		if st.head, err = st.next(ctx); err == nil {
			st.loaded = true
			return nil
		}
		if errors.Is(err, errEnd) && st.shelf == nil { // of a shelf, the leader has said where it ends
			err = s.reallyTheEnd(ctx, st.tape, s.end)
		}
		if errors.Is(err, errEnd) {
			st.close()
			s.open = slices.DeleteFunc(s.open, func(other *strand) bool { return other == st })
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *strands) close() {
	for _, st := range s.open {
		st.close()
	}
	s.open = nil
}
