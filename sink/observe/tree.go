package observe

import (
	"container/list"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// tree is the state of a root session and its sub-agents. They are kept together, because the row of a sub-agent's run names the call of its parent.
type tree struct {
	root     chunk.Session
	sessions map[string]*session
	turns    int        // of the root
	bytes    int        // of all sessions, by estimate
	content  int        // bytes of content
	contents *list.List // the sessions with content: the one that was used last is at the front
}

// The limits of what a tree keeps: a client can write very many records in a turn.
const (
	maxKept = 4 << 20  // bytes of content
	maxTree = 16 << 20 // bytes of all, by estimate
)

func newTree(root chunk.Session) *tree {
	return &tree{root: root, sessions: map[string]*session{}, contents: list.New()}
}

func (t *tree) session(f *Folder, key chunk.Session) *session {
	s := t.sessions[key.ID]
	if s == nil {
		s = &session{f: f, key: key}
		s.reset()
		t.sessions[key.ID] = s
	}
	return s
}

// account updates the bytes after a record of s, and forgets what is too much.
func (f *Folder) account(s *session) {
	t := f.tree
	f.dropEnded(s)
	s.used = t.turns
	switch {
	case s.inContents != nil:
		t.contents.MoveToFront(s.inContents)
	case s.content > 0:
		s.inContents = t.contents.PushFront(s)
	}
	f.measure(s)
	for t.content > maxKept && t.contents.Len() > 0 {
		oldest, _ := t.contents.Back().Value.(*session)
		if !oldest.dropContent() {
			t.contents.Remove(oldest.inContents)
			oldest.inContents = nil
		}
		f.measure(oldest)
	}
	if t.bytes > maxTree {
		f.giveUp(s)
	}
	for f.bytes > f.cfg.Memory && f.recent.Len() > 1 {
		last, _ := f.recent.Back().Value.(*tree)
		f.Forget(last.root)
	}
}

// dropEnded drops most of the state of sub-agents that ended before the previous turn, when a turn of the root begins.
func (f *Folder) dropEnded(s *session) {
	t := f.tree
	if !s.key.IsRoot() {
		return
	}
	if s.turn > t.turns {
		for _, other := range t.sessions {
			if other != s && other.used+1 < s.turn && len(other.entries) > 0 && other.hasEnded() {
				other.keepLastRun()
				f.measure(other)
			}
		}
	}
	t.turns = s.turn
}

// measure updates the sums of the tree and of the Folder.
func (f *Folder) measure(s *session) { f.count(s, s.size(), s.content) }

func (f *Folder) count(s *session, bytes, content int) {
	f.bytes += bytes - s.bytes
	f.tree.bytes += bytes - s.bytes
	f.tree.content += content - s.counted
	s.bytes, s.counted = bytes, content
}

// forgetOthers forgets the sessions of a tree but s.
func (f *Folder) forgetOthers(s *session) {
	for id, other := range f.tree.sessions {
		if other == s {
			continue
		}
		f.count(other, 0, 0)
		if other.inContents != nil {
			f.tree.contents.Remove(other.inContents)
		}
		delete(f.tree.sessions, id)
	}
}

// giveUp forgets a tree that is too large, after it has written what has not ended as unknown. What follows is incomplete, as if the log had lost the records before.
func (f *Folder) giveUp(s *session) {
	for _, id := range slices.Sorted(maps.Keys(f.tree.sessions)) {
		f.tree.sessions[id].forgetOpen()
	}
	f.forgetOthers(s)
	last, epoch := s.last, s.epoch
	s.reset()
	s.last, s.epoch, s.incomplete = last, epoch, true
	f.measure(s)
}
