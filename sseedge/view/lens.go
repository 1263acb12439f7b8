package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
)

// everyType stands for all types of the catalogue in Types, and in Hide.
const everyType = "*"

// baseShapes are the members that every chunk has. Readers go by all but one.
var baseShapes = []chunk.Shape{
	{Name: "type", Required: true}, {Name: "agentId", Required: true},
	{Name: "agentType", Required: true, Blank: chunk.Value(`""`)},
	{Name: "timestamp", Required: true}, {Name: "step", Required: true},
}

// Lens is a View made ready for use. It may be used from many goroutines.
type Lens struct {
	root  sight // of a root agent's records
	child sight // of a sub-agent's

	rootPage, childPage page
}

// sight has the rules of the types that are shown.
type sight map[chunk.Type]*rule

// Lens checks a View.
func (v View) Lens() (*Lens, error) {
	v, err := v.withPreset()
	if err != nil {
		return nil, err
	}
	types, err := v.shown()
	if err != nil {
		return nil, err
	}
	root := make(sight)
	for _, t := range types {
		root[t] = ruleOf(shapesOf(t), v.Extra || !known(t))
	}
	if err := v.hideIn(root); err != nil {
		return nil, err
	}
	if err := root.checkRepeats(); err != nil {
		return nil, err
	}
	root.blankUnshownMessages()
	root.addStreamEvents()
	l := &Lens{root: root, child: root.ofSubAgents(v.SubAgents)}
	l.rootPage, l.childPage = root.page(), l.child.page()
	return l, nil
}

// shown are the types that v lists.
func (v View) shown() ([]chunk.Type, error) {
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
			return nil, fmt.Errorf("except: nobody knows a type %q", t)
		}
	}
	return slices.DeleteFunc(types, func(t chunk.Type) bool { return slices.Contains(v.Except, t) }), nil
}

func known(t chunk.Type) bool { return slices.Contains(chunk.Types(), t) }

func shapesOf(t chunk.Type) []chunk.Shape { return slices.Concat(baseShapes, chunk.Shapes(t)) }

// hideIn applies v.Hide to what is shown. A path that hides nothing is an error.
func (v View) hideIn(in sight) error {
	for t, paths := range v.Hide {
		for _, path := range paths {
			names := strings.Split(path, ".")
			if slices.Contains(names, "") {
				return fmt.Errorf("hide %s %q: want the names of members, with dots between", t, path)
			}
			if err := v.hide(in, t, names); err != nil {
				return fmt.Errorf("hide %s %q: %w", t, path, err)
			}
		}
	}
	return nil
}

func (v View) hide(in sight, t chunk.Type, path []string) error {
	if t == everyType {
		return v.hideEverywhere(in, path)
	}
	r := in[t]
	if r == nil {
		if !known(t) {
			return fmt.Errorf("nobody knows a type %q", t)
		}
		r = ruleOf(shapesOf(t), v.Extra) // checked, if of no use
	}
	return hideMember(r, t, path)
}

func (v View) hideEverywhere(in sight, path []string) error {
	hits := 0
	types := slices.AppendSeq(chunk.Types(), maps.Keys(in))
	slices.Sort(types)
	for _, t := range slices.Compact(types) {
		_, has := find(shapesOf(t), path[0])
		r := in[t]
		if !has && (r == nil || r.closed) {
			continue
		}
		hits++
		if r == nil {
			continue
		}
		if err := hideMember(r, t, path); err != nil {
			return fmt.Errorf("of %s: %w", t, err)
		}
	}
	if hits == 0 {
		return errNoMember
	}
	return nil
}

func hideMember(r *rule, t chunk.Type, path []string) error {
	if t == chunk.TypeStatePatch && len(path) > 1 && path[0] == "patches" {
		return fmt.Errorf("a patch with a part hidden is another patch: hide %q", path[0])
	}
	if err := r.hide(shapesOf(t), path); err != nil {
		return err
	}
	if m := r.members["error"]; t == chunk.TypeToolEnd && m != nil && m.hidden {
		m.instead = []byte(`""`) // that there is one says that the tool failed
	}
	return nil
}

// repeats are members that say the same, each in its own place.
var repeats = []map[chunk.Type]string{
	{
		chunk.TypeToolStart: "arguments", chunk.TypeToolArgStreamDelta: "delta",
		chunk.TypeToolApprovalRequest: "input", chunk.TypeToolInputError: "partialInput",
	},
	{chunk.TypeToolEnd: "result", chunk.TypeSubagentEnd: "result"},
	{chunk.TypeToolEnd: "error", chunk.TypeToolInputError: "error", chunk.TypeToolOutputError: "error"},
	{chunk.TypeOutput: "output", chunk.TypeStreamEnd: "finalOutput"},
	{chunk.TypeError: "error", chunk.TypeStreamFailed: "error"},
	{chunk.TypeError: "errorDetail", chunk.TypeStreamFailed: "errorDetail"},
}

// checkRepeats refuses a view that hides something in one place and shows it in
// another: the arguments of a call, but not the pieces in which they stream.
func (in sight) checkRepeats() error {
	for _, places := range repeats {
		var hides, shows []string
		for _, t := range slices.Sorted(maps.Keys(places)) {
			switch r := in[t]; {
			case r == nil: // not listed: nobody said that it is a secret
			case r.shows(places[t]):
				shows = append(shows, string(t)+"."+places[t])
			default:
				hides = append(hides, string(t)+"."+places[t])
			}
		}
		if len(hides) > 0 && len(shows) > 0 {
			return fmt.Errorf("it hides %s and shows the same in %s", hides[0], shows[0])
		}
	}
	return nil
}

// addStreamEvents adds the types that are always shown, without what they carry
// where they are not listed.
func (in sight) addStreamEvents() {
	agentType := in.agentType()
	for _, t := range chunk.Types() {
		if !isStreamEvent(t) || in[t] != nil {
			continue
		}
		r := ruleOf(baseShapes, false)
		r.blank("agentType", agentType, `""`)
		for _, s := range chunk.Shapes(t) {
			r.members[s.Name] = nil
			switch {
			case !s.Required:
				delete(r.members, s.Name)
			case s.Blank != nil:
				r.blank(s.Name, false, string(s.Blank))
			}
		}
		in[t] = r
	}
}

// blankUnshownMessages takes the words out of the messages that an application
// keeps from people ("hidden" in their metadata). They keep their place, because
// readers count messages, and the mark that says so, although metadata may be
// hidden: a page that does not see it would show them.
func (in sight) blankUnshownMessages() {
	started := in[chunk.TypeRunStarted]
	if started == nil || started.members["input"].hidden {
		return
	}
	input := started.members["input"]
	unshown := open("content", "metadata")
	unshown.blank("content", false, `""`)
	unshown.blank("metadata", false, `{"hidden":true}`)
	started.members["input"] = &rule{members: input.members, closed: input.closed, pick: func(message []byte) (*rule, bool) {
		if isUnshown(message) {
			return unshown, true
		}
		return input, true
	}}
}

// isUnshown reports whether a message's metadata has a member "hidden" that is
// true, or "true", as the fold of the session reads it.
func isUnshown(message []byte) bool {
	unshown := false
	err := eachMember(message, func(name, _, value []byte) error {
		if string(name) != "metadata" || jsontext.Value(value).Kind() != '{' {
			return nil
		}
		return eachMember(value, func(name, _, value []byte) error {
			unshown = unshown || string(name) == "hidden" && (string(value) == "true" || string(value) == `"true"`)
			return nil
		})
	})
	return unshown || err != nil
}

func isStreamEvent(t chunk.Type) bool { return t.Control() && t != chunk.TypeRunStarted }

// ofSubAgents is the sight of what sub-agents say. What a sub-agent is asked is
// what the tool that calls it is given.
func (in sight) ofSubAgents(shown bool) sight {
	child := make(sight)
	if shown {
		child = maps.Clone(in)
	} else {
		child.addStreamEvents()
	}
	if r := child[chunk.TypeRunStarted]; r != nil && !in[chunk.TypeToolStart].showsIfListed("arguments") {
		asked := *r
		asked.members = maps.Clone(r.members)
		asked.members["input"] = &rule{hidden: true, instead: []byte("[]")}
		child[chunk.TypeRunStarted] = &asked
	}
	return child
}

func (r *rule) showsIfListed(path ...string) bool { return r != nil && r.shows(path...) }

// Record is what is shown of rec, and whether it is shown at all. The result may
// share memory with rec.
func (l *Lens) Record(rec chunk.Record) (chunk.Record, bool) {
	in := l.root
	if !rec.Session.IsRoot() {
		in = l.child
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

// rewrite is what r shows of the body of rec. It reports false for a body that
// is not what the record says it is.
//
// Decode is what makes the rest safe: behind it the text is one object within
// the limits, no name in it comes twice however it is written, the members of
// the catalogue have the form that the rules were made for, and the type by
// which the rule was chosen is the one that readers will go by.
func (r *rule) rewrite(rec chunk.Record) ([]byte, bool) {
	c, err := chunk.Decode(rec.Data)
	if err != nil || c.Type() != rec.Type {
		return nil, false
	}
	data, err := r.append(make([]byte, 0, len(rec.Data)), rec.Data)
	return data, err == nil
}
