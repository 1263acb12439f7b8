package observe

import (
	"container/list"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// session is the state of a session: the fold of its entries. The entries since the start of the previous turn are kept, with some earlier states, so that a cleanup
// continues from the state before the first removed entry.
type session struct {
	state

	f      *Folder
	key    chunk.Session
	last   chunk.Ordinal
	epoch  chunk.Epoch   // highest
	fenced chunk.Ordinal // last record of a superseded writer
	bytes  int           // of the state, see account

	byCall  map[string]ref // the latest call with an id
	entries []entry
	dropped int     // number of entries before those
	saved   []saved // earlier states, oldest first; the first one is that before the first entry
	version int     // of items: those of an earlier version are shared with an earlier state
	content int     // bytes of the content of entries
	shed    int     // number of entries, from the first record of the session, whose content was dropped
	used    int     // number of turns of the root at the last record

	counted    int           // bytes of content in the sum of the tree
	inContents *list.Element // of the tree

	e       *entry  // that is being applied
	quiet   bool    // rows are not written: the state is computed again
	trimmed []*item // of turns before the previous one, while quiet
	loaded  bool    // the last record was loaded
	missing ranges  // when the session was loaded: no cleanup has explained them yet
}

// state is the part that a cleanup restores.
type state struct {
	phase           phase
	turn            int // number of turns so far
	turnID, traceID string
	owner           *chunk.Principal // the client that requested the present run, or the run of the root
	parent          parent
	agentType       string
	incomplete      bool // the beginning of the turn has left the log
	run, step       ref  // the latest run, and its open step
	section         section
	items           []*item // in the order in which they began
	first           int     // number of items before those
	live            int     // items with a row
}

// phase is what may follow in a session.
type phase int

const (
	closed phase = iota // no run, or the last one has ended
	active
	paused // waits, or was interrupted
)

// saved is a state before an entry.
type saved struct {
	state

	entry int // its number
	turn  bool
	last  bool // of keepLastRun: the entry does not save it again
}

// The limits of the states that a session keeps.
const (
	maxSaved    = 4  // within a turn
	minDistance = 16 // entries between two of them
)

// reset forgets everything but what account needs.
func (s *session) reset() {
	*s = session{f: s.f, key: s.key, bytes: s.bytes, counted: s.counted, inContents: s.inContents, byCall: map[string]ref{}}
}

// restarts reports whether the session begins again: its earlier records have left the log before a writer that did not know them. A record of a superseded writer,
// which has a lower epoch, does not.
func (s *session) restarts(rec chunk.Record) bool {
	return s.last > 0 && rec.Ordinal <= s.last && (rec.Ordinal == 1 || rec.Type == chunk.TypeRunStarted || rec.Epoch >= s.epoch)
}

// accept makes rec the last record.
func (s *session) accept(rec chunk.Record) {
	if s.last == 0 && rec.Ordinal > 1 {
		s.incomplete = true
	}
	s.miss(rec)
	s.last, s.epoch = rec.Ordinal, max(s.epoch, rec.Epoch)
}

// push adds an entry and applies it.
func (s *session) push(e entry) {
	if e.control && s.turn == 0 {
		return
	}
	s.entries = append(s.entries, e)
	s.content += e.contentBytes()
	s.e = &s.entries[len(s.entries)-1]
	s.apply()
	s.e = nil
}

// dropContent drops the content of the oldest entry that has some, and reports false if there is none.
func (s *session) dropContent() bool {
	for s.shed = max(s.shed, s.dropped); s.shed < s.dropped+len(s.entries); {
		n := s.entries[s.shed-s.dropped].dropContent()
		s.shed++
		if n > 0 {
			s.content -= n
			return true
		}
	}
	return false
}

// apply changes the state by an entry.
func (s *session) apply() {
	started, isStart := s.e.body.(chunk.RunStarted)
	switch {
	case isStart:
		s.runStarted(started)
		return
	case s.turn == 0:
		s.importRun()
	}
	switch b := s.e.body.(type) {
	case chunk.TextDelta:
		s.output()
		s.section.stored += len(s.e.pieces.text)
		s.section.size += s.e.pieces.total
	case chunk.Thinking, chunk.ToolArgStreamDelta:
		s.output()
	case chunk.StepStart:
		s.stepStart(b)
	case chunk.StepEnd:
		s.stepEnd(b)
	case chunk.Output:
		s.edit(s.run).run.final = s.e.value
	case chunk.StreamPaused, chunk.StreamActive, chunk.StreamEnd, chunk.StreamFailed, chunk.RunInterrupted, chunk.RunResumed, chunk.ExecutorSuperseded:
		s.applyRun(b)
	default:
		s.applyCall(b)
	}
}

// save keeps the state before the present entry.
func (s *session) save(turn bool) {
	now := saved{state: s.state, entry: s.dropped + len(s.entries) - 1, turn: turn}
	now.items = slices.Clone(s.items)
	s.saved = append(s.saved, now)
	s.version++
	inTurn := func(v saved) bool { return !v.turn }
	n := 0
	for _, v := range s.saved {
		if inTurn(v) {
			n++
		}
	}
	if n > maxSaved {
		i := slices.IndexFunc(s.saved, inTurn)
		s.saved = slices.Delete(s.saved, i, i+1)
	}
}

// isDue reports whether a state should be saved within the turn: seldom enough that its cost is small beside that of the entries.
func (s *session) isDue() bool {
	return s.dropped+len(s.entries)-s.saved[len(s.saved)-1].entry > minDistance+len(s.items)/64
}

// trim drops the entries, states and items from before the previous turn.
func (s *session) trim() {
	i, turns := len(s.saved), 0
	for i > 0 && turns < 2 {
		if i--; s.saved[i].turn {
			turns++
		}
	}
	if turns < 2 {
		return
	}
	s.saved = slices.Delete(s.saved, 0, i)
	from := s.saved[0]
	for i := range s.entries[:from.entry-s.dropped] {
		s.content -= s.entries[i].contentBytes()
	}
	s.entries = slices.Clone(s.entries[from.entry-s.dropped:])
	s.e = &s.entries[len(s.entries)-1]
	s.dropped = from.entry
	old := from.first + len(from.items) - s.first
	for n, it := range s.items[:old] {
		if it.call != nil && s.byCall[it.call.key] == ref(s.first+n+1) {
			delete(s.byCall, it.call.key)
		}
		if it.row != nil {
			s.live--
		}
	}
	if s.quiet {
		s.trimmed = append(s.trimmed, s.items[:old]...)
	}
	s.items, s.first = slices.Clone(s.items[old:]), s.first+old
}

// hasEnded reports whether the last run and all calls have ended.
func (s *session) hasEnded() bool {
	return s.phase == closed && s.turn > 0 && !slices.ContainsFunc(s.items, (*item).isOpen)
}

// keepLastRun drops everything but the last run of a session that has ended: a cleanup changes no row of it any more.
func (s *session) keepLastRun() {
	s.dropped += len(s.entries)
	s.entries, s.content, s.shed = nil, 0, s.dropped
	clear(s.byCall)
	last := s.own(s.run)
	for _, v := range []*value{last.in, last.out, last.run.text, last.run.final} {
		if v != nil && v.json != "" {
			v.json, v.cut = "", true
		}
	}
	s.items, s.first, s.live, s.step = []*item{last}, int(s.run)-1, 1, 0
	s.saved = []saved{{state: s.state, entry: s.dropped, turn: true, last: true}}
	s.saved[0].items = slices.Clone(s.items)
	s.version++
}

// size estimates the bytes of s.
func (s *session) size() int {
	const perSession, perState, perItem, perRow, perEntry = 1600, 500, 200, 1300, 420
	n := perSession + len(s.items)*perItem + s.live*perRow + len(s.entries)*perEntry + s.content
	for i := range s.saved {
		n += perState + 8*len(s.saved[i].items)
	}
	return n
}

// forgetOpen writes what has not ended as unknown: its records have left the log. When it ended is not known either.
func (s *session) forgetOpen() {
	s.e = &entry{ordinal: s.last}
	for _, it := range s.items {
		if it.isOpen() {
			it.row.Status = row.Unknown
			s.write(it)
		}
	}
}
