package view

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// View says what an audience is shown. The zero View shows what happens to the
// stream, and nothing of what is said in it.
type View struct {
	// Preset, if not empty, is a view that this one adds to: what either shows
	// is shown, but for what either hides. The one there is, is Public.
	Preset string `json:"preset"`

	// Types are shown. "*" is every type of the catalogue but suspension_marker,
	// which is for the server. A type that is not of the catalogue is shown, and
	// shown whole, if it is listed by its name.
	Types []chunk.Type `json:"types"`

	// Except are not shown, whatever Types say.
	Except []chunk.Type `json:"except"`

	// Hide has paths of members that are not shown, by type: "arguments",
	// "errorDetail.cause". A path goes through arrays, and into values of any
	// form. The type "*" stands for all types that have such a member.
	Hide map[chunk.Type][]string `json:"hide"`

	// SubAgents shows what sub-agents say. Their results are made of it.
	SubAgents bool `json:"subAgents"`

	// Extra shows members that the catalogue does not know.
	Extra bool `json:"extra"`
}

// Config is the views of a deployment. Its JSON is what Read takes.
type Config struct {
	// Views by name: 1 to 64 letters, digits, - or _.
	Views map[string]View `json:"views"`

	// Default is the view of a request that names none. Without it such a request
	// is shown everything, and views are a convenience that hides nothing from
	// somebody who leaves the parameter out.
	Default string `json:"default"`

	// Selectable are the views that a request may name beside Default. Without a
	// Default it may name any.
	Selectable []string `json:"selectable"`
}

// Read reads a Config. A member that it does not know, or that comes twice, is
// an error: a rule that is misspelt must not be a rule that is missing.
func Read(r io.Reader) (Config, error) {
	var cfg Config
	if err := json.UnmarshalRead(r, &cfg, json.RejectUnknownMembers(true)); err != nil {
		return Config{}, fmt.Errorf("views: %w", err)
	}
	return cfg, nil
}

// Views are checked and ready for use. The nil *Views has no view. Its methods
// may be called from many goroutines.
type Views struct {
	lenses      map[string]*Lens
	defaultView string
	selectable  []string // nil: all
}

// New checks a Config.
func New(cfg Config) (*Views, error) {
	vs := &Views{lenses: make(map[string]*Lens, len(cfg.Views)), defaultView: cfg.Default}
	for name, v := range cfg.Views {
		if err := subjects.CheckToken("view", name); err != nil {
			return nil, err
		}
		lens, err := v.Lens()
		if err != nil {
			return nil, fmt.Errorf("view %q: %w", name, err)
		}
		vs.lenses[name] = lens
	}
	if cfg.Default == "" && len(cfg.Selectable) > 0 {
		return nil, errors.New("selectable without a default: who names no view is shown everything")
	}
	if cfg.Default != "" {
		vs.selectable = append([]string{cfg.Default}, cfg.Selectable...)
	}
	for _, name := range vs.selectable {
		if vs.lenses[name] == nil {
			return nil, fmt.Errorf("there is no view %q", name)
		}
	}
	return vs, nil
}

// Choose is the view that serves a request which names asked, "" for none; the
// answer is "" when it is shown everything. It reports false when the request
// may not have what it asks for, or there is no such view: a stranger is not
// told which.
func (vs *Views) Choose(asked string) (string, bool) {
	switch {
	case vs == nil:
		return "", asked == ""
	case asked == "":
		return vs.defaultView, true
	case vs.defaultView == "":
		return asked, vs.lenses[asked] != nil
	}
	return asked, slices.Contains(vs.selectable, asked)
}

// Names of all views, sorted.
func (vs *Views) Names() []string {
	if vs == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(vs.lenses))
}

// Lens is the one of a name, nil when there is none.
func (vs *Views) Lens(name string) *Lens {
	if vs == nil {
		return nil
	}
	return vs.lenses[name]
}

// Encodings makes an encoding of each view out of one that shows everything: the
// Encodings of a hub, under the names of the views.
func Encodings[E ~func(dst []byte, rec chunk.Record, scope chunk.Scope) []byte](vs *Views, encode E) map[string]E {
	if vs == nil {
		return nil
	}
	all := make(map[string]E, len(vs.lenses))
	for name, lens := range vs.lenses {
		all[name] = func(dst []byte, rec chunk.Record, scope chunk.Scope) []byte {
			shown, ok := lens.Record(rec)
			if !ok {
				return dst
			}
			return encode(dst, shown, scope)
		}
	}
	return all
}
