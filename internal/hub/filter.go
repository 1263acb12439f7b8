package hub

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Filter hides chunks from a client; its cursor advances over them nevertheless.
// Records about the stream itself (end, failure, status, truncation) are never
// hidden: a client that does not receive the end would wait for it. The zero Filter
// shows all chunks.
type Filter struct {
	Types   []chunk.Type // if not empty, only these
	Exclude []chunk.Type // none of these
	Agent   string       // if not empty, only chunks of the agent of this session
}

func (f Filter) empty() bool { return len(f.Types) == 0 && len(f.Exclude) == 0 && f.Agent == "" }

func (f Filter) showsType(t chunk.Type) bool {
	return (len(f.Types) == 0 || slices.Contains(f.Types, t)) && !slices.Contains(f.Exclude, t)
}

func (f Filter) showsAgent(id string) bool { return f.Agent == "" || f.Agent == id }

// filterCache caches the results of a Filter per kind and member of a topic, so that
// a frame costs two look-ups in small tables.
type filterCache struct {
	filter Filter
	kinds  []bool
	agents []bool
}

// addKind adds the kinds and members that the topic has met since the last call.
func (s *filterCache) addKind(kinds []chunk.Type, ids []string) {
	for _, k := range kinds[len(s.kinds):] {
		s.kinds = append(s.kinds, s.filter.showsType(k))
	}
	for _, id := range ids[len(s.agents):] {
		s.agents = append(s.agents, s.filter.showsAgent(id))
	}
}

func (s *filterCache) shows(f *frame) bool {
	return f.flags&ofStream != 0 || (s.kinds[f.kind] && s.agents[f.index])
}
