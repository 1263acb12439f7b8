package hub

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Filter hides chunks from a client; its cursor moves over them all the same.
// What happened to the stream itself (end, failure, status, truncation) is never
// hidden: a reader that does not see the end would wait for it. The zero Filter
// shows everything.
type Filter struct {
	Types   []chunk.Type // only these, if there are any
	Exclude []chunk.Type // none of these
	Agent   string       // only what the agent of this session says, if not empty
}

func (f Filter) empty() bool { return len(f.Types) == 0 && len(f.Exclude) == 0 && f.Agent == "" }

func (f Filter) showsType(t chunk.Type) bool {
	return (len(f.Types) == 0 || slices.Contains(f.Types, t)) && !slices.Contains(f.Exclude, t)
}

func (f Filter) showsAgent(id string) bool { return f.Agent == "" || f.Agent == id }

// sieve is a Filter with its answers written down per kind and member of a
// topic, so that a frame costs two look-ups in small tables.
type sieve struct {
	filter Filter
	kinds  []bool
	agents []bool
}

// learn answers for what the topic has named since the last time.
func (s *sieve) learn(kinds []chunk.Type, ids []string) {
	for _, k := range kinds[len(s.kinds):] {
		s.kinds = append(s.kinds, s.filter.showsType(k))
	}
	for _, id := range ids[len(s.agents):] {
		s.agents = append(s.agents, s.filter.showsAgent(id))
	}
}

func (s *sieve) shows(f *frame) bool {
	return f.traits&ofStream != 0 || (s.kinds[f.kind] && s.agents[f.who])
}
