package view

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// everyType means all types of the chunk schema in Types and in Hide.
const everyType = "*"

// baseShapes has the members of every chunk. Clients depend on all but one.
var baseShapes = []chunk.MemberSchema{
	{Name: "type", Required: true}, {Name: "agentId", Required: true},
	{Name: "agentType", Required: true, Empty: chunk.Value(`""`)},
	{Name: "timestamp", Required: true}, {Name: "step", Required: true},
}

// Compiled is a View that is checked and ready for use. It is safe for concurrent use.
type Compiled struct {
	root  ruleSet // of a root agent's records
	child ruleSet // of a sub-agent's

	rootPage, childPage page
	chat                *Chat
}

// ruleSet has the rules of the types that are shown.
type ruleSet map[chunk.Type]*rule

// Compile checks a View.
func (v View) Compile() (*Compiled, error) {
	v, err := v.withPreset()
	if err != nil {
		return nil, err
	}
	types, err := v.visibleTypes()
	if err != nil {
		return nil, err
	}
	root := make(ruleSet)
	for _, t := range types {
		root[t] = recordRule(t, v.Extra || !isKnownType(t))
	}
	if err := v.restrict(root); err != nil {
		return nil, err
	}
	if err := root.checkRepeats(); err != nil {
		return nil, err
	}
	root.blankUnshownMessages()
	root.addStreamEvents(root.agentType())
	c := &Compiled{root: root, child: root.ofSubAgents(v.SubAgents)}
	c.rootPage, c.childPage = root.page(), c.child.page()
	c.chat = root.chat(v.SubAgents)
	return c, nil
}

// visibleTypes returns the types that v lists.
func (v View) visibleTypes() ([]chunk.Type, error) {
	catalogue := chunk.Types()
	types := slices.DeleteFunc(slices.Clone(v.Types), func(t chunk.Type) bool { return t == everyType })
	if len(types) < len(v.Types) {
		for _, t := range catalogue {
			if t != chunk.TypeSuspensionMarker {
				types = append(types, t)
			}
		}
	}
	for _, t := range v.Except {
		if !slices.Contains(types, t) && !slices.Contains(catalogue, t) {
			return nil, fmt.Errorf("except: unknown type %q", t)
		}
	}
	// The records of a fork have the messages of another session: no view shows them.
	return slices.DeleteFunc(types, func(t chunk.Type) bool { return t.OfFork() || slices.Contains(v.Except, t) }), nil
}

func isKnownType(t chunk.Type) bool { return slices.Contains(chunk.Types(), t) }

func shapesOf(t chunk.Type) []chunk.MemberSchema { return slices.Concat(baseShapes, chunk.Schema(t)) }

// addStreamEvents adds the types that are always shown; those that are not listed are shown without content.
func (in ruleSet) addStreamEvents(agentType bool) {
	for _, t := range chunk.Types() {
		if !isStreamEvent(t) || in[t] != nil {
			continue
		}
		in[t] = withoutContent(t, agentType)
	}
}

// withoutContent returns the rule of a type that is shown without content.
func withoutContent(t chunk.Type, agentType bool) *rule {
	r := ruleOf(baseShapes, false)
	r.blank("agentType", agentType, `""`)
	for _, s := range chunk.Schema(t) {
		r.members[s.Name] = nil
		switch {
		case !s.Required:
			delete(r.members, s.Name)
		case s.Empty != nil:
			r.blank(s.Name, false, string(s.Empty))
		}
	}
	return r
}

// blankUnshownMessages removes the text of messages that an application hides from users ("hidden" in their metadata). The messages keep their place,
// because readers count messages, and their hidden member, even if metadata is hidden: a client without it would show them.
func (in ruleSet) blankUnshownMessages() {
	started := in[chunk.TypeRunStarted]
	if started == nil || started.members["input"].hidden {
		return
	}
	input := started.members["input"]
	unshown := open("content", "metadata")
	unshown.blank("content", false, `""`)
	unshown.blank("metadata", false, string(unshownMetadata))
	started.members["input"] = &rule{members: input.members, closed: input.closed, selectRule: func(message []byte) (*rule, bool) {
		if fold.IsHidden(rawjson.Get(message, "metadata")) {
			return unshown, true
		}
		return input, true
	}}
}

func isStreamEvent(t chunk.Type) bool { return t.Control() && t != chunk.TypeRunStarted }

// ofSubAgents returns the rules for the records of sub-agents. The input of a sub-agent is the arguments of the tool call that starts it.
func (in ruleSet) ofSubAgents(shown bool) ruleSet {
	child := make(ruleSet)
	if shown {
		child = maps.Clone(in)
	} else {
		child.addStreamEvents(in.agentType() && in.allOf(subAgentTypes...))
	}
	if r := child[chunk.TypeRunStarted]; r != nil && !in[chunk.TypeToolStart].showsIfListed("arguments") {
		asked := *r
		asked.members = maps.Clone(r.members)
		asked.members["input"] = &rule{hidden: true, replacement: []byte("[]")}
		child[chunk.TypeRunStarted] = &asked
	}
	return child
}

func (r *rule) showsIfListed(path ...string) bool { return r != nil && r.shows(path...) }

// ShowsValue reports whether a large value of a session is shown: all of the member that refers to it. The nil *Compiled shows everything.
func (c *Compiled) ShowsValue(s chunk.Session, typ chunk.Type, member string) bool {
	if c == nil {
		return true
	}
	in, path := c.root, []string{member}
	if !s.IsRoot() {
		in = c.child
	}
	if typ == chunk.TypeRunStarted {
		path = append(path, "files", "url")
	}
	return in[typ].showsIfListed(path...)
}

// Record returns what is shown of rec, and whether it is shown at all. The result may share memory with rec.
func (c *Compiled) Record(rec chunk.Record) (chunk.Record, bool) {
	in := c.root
	if !rec.Session.IsRoot() {
		in = c.child
	}
	r, listed := in[rec.Type]
	if !listed {
		return chunk.Record{}, false
	}
	data, ok := r.rewrite(rec)
	if !ok {
		if !isStreamEvent(rec.Type) {
			return chunk.Record{}, false
		}
		data = nil
	}
	rec.Data = data
	return rec, true
}

// rewrite returns what r shows of the body of rec. It reports false for a body that is malformed or has another type than the record.
//
// Decode makes the rest safe: the text is one object within the limits, no name occurs twice in any spelling, the members of the chunk schema have the form
// that the rules expect, and the type that selected the rule is the type that readers use.
func (r *rule) rewrite(rec chunk.Record) ([]byte, bool) {
	c, err := chunk.Decode(rec.Data)
	if err != nil || c.Type() != rec.Type {
		return nil, false
	}
	return r.append(make([]byte, 0, len(rec.Data)), rec.Data), true
}
