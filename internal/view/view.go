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

// View selects the content that an audience is shown. The zero View shows the events of the stream without content.
type View struct {
	// Preset, if not empty, is a view that this one extends: it shows what either of them shows and neither hides. It is Public, Analytics, None or All.
	Preset string `json:"preset"`

	// Types are shown. "*" is every type of the schema except suspension_marker, which is for servers. A type that is not in the schema is shown, with all its
	// members, if it is listed by its name.
	Types []chunk.Type `json:"types"`

	// Except are types that are not shown, even if Types has them.
	Except []chunk.Type `json:"except"`

	// Hide has paths of members that are not shown, by type: "arguments", "errorDetail.cause". A path goes through arrays, and into values of any form. The
	// type "*" selects all types that have such a member.
	Hide map[chunk.Type][]string `json:"hide"`

	// Mask has paths of members that are shown without content, by type, as in Hide: the names of members, the structure, booleans and null stay, and each text
	// and number is the text "•". The member must have a value of any form, such as arguments or result. A member that is in Hide too is hidden.
	Mask map[chunk.Type][]string `json:"mask"`

	// SubAgents shows the output of sub-agents. Their results consist of it.
	SubAgents bool `json:"subAgents"`

	// Extra shows members that the schema does not have.
	Extra bool `json:"extra"`
}

// Config has the views of a deployment. Read reads its JSON.
type Config struct {
	// Views by name: 1 to 64 letters, digits, - or _.
	Views map[string]View `json:"views"`

	// Default is the view of a request that names none. Without a Default such a request is shown everything, so views do not protect content.
	Default string `json:"default"`

	// Selectable has the views that a request may name besides Default. Without a Default it may name any view.
	Selectable []string `json:"selectable"`
}

// Read reads and checks a Config. An unknown or duplicate member is an error: a misspelt rule must not be ignored.
func Read(r io.Reader) (*Views, error) {
	var cfg Config
	if err := json.UnmarshalRead(r, &cfg, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("views: %w", err)
	}
	return New(cfg)
}

// Views has the views of a Config, checked and ready for use. The nil *Views has no view. Its methods are safe for concurrent use.
type Views struct {
	compiled    map[string]*Compiled
	defaultView string
	selectable  []string // nil: all
}

// New checks a Config.
func New(cfg Config) (*Views, error) {
	vs := &Views{compiled: make(map[string]*Compiled, len(cfg.Views)), defaultView: cfg.Default}
	for name, v := range cfg.Views {
		if err := subjects.CheckToken("view", name); err != nil {
			return nil, err
		}
		c, err := v.Compile()
		if err != nil {
			return nil, fmt.Errorf("view %q: %w", name, err)
		}
		vs.compiled[name] = c
	}
	if cfg.Default == "" && len(cfg.Selectable) > 0 {
		return nil, errors.New("selectable without a default: a request without a view would be shown everything")
	}
	if cfg.Default != "" {
		vs.selectable = append([]string{cfg.Default}, cfg.Selectable...)
	}
	for _, name := range vs.selectable {
		if vs.compiled[name] == nil {
			return nil, fmt.Errorf("unknown view %q", name)
		}
	}
	return vs, nil
}

// Select returns the view for a request that names asked, "" for none; the result is "" if the request is shown everything. It reports false if the view
// is not selectable or does not exist; the caller must not tell the client which.
func (vs *Views) Select(asked string) (string, bool) {
	switch {
	case vs == nil:
		return "", asked == ""
	case asked == "":
		return vs.defaultView, true
	case vs.defaultView == "":
		return asked, vs.compiled[asked] != nil
	}
	return asked, slices.Contains(vs.selectable, asked)
}

// Names returns the names of all views, sorted.
func (vs *Views) Names() []string {
	if vs == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(vs.compiled))
}

// Get returns the view with this name, nil if there is none.
func (vs *Views) Get(name string) *Compiled {
	if vs == nil {
		return nil
	}
	return vs.compiled[name]
}

// Encodings returns an encoding for each view, by name, from an encoding that shows everything: the Encodings of a hub.
func Encodings[E ~func(dst []byte, rec chunk.Record, scope chunk.Scope) []byte](vs *Views, encode E) map[string]E {
	if vs == nil {
		return nil
	}
	all := make(map[string]E, len(vs.compiled))
	for name, c := range vs.compiled {
		all[name] = func(dst []byte, rec chunk.Record, scope chunk.Scope) []byte {
			shown, ok := c.Record(rec)
			if !ok {
				return dst
			}
			return encode(dst, shown, scope)
		}
	}
	return all
}
