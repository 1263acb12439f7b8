package chunk

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestPython compares the types of the Python package with the catalogue.
func TestPython(t *testing.T) {
	const file = "../clients/python/src/tailrace/chunks.py"
	got := (&python{docs: docsOf(t)}).file()
	if flag.Lookup("update").Value.String() == "true" { // the flag of golden_test.go
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not that of the catalogue; run go test ./chunk -run TestPython -update", file)
	}
}

// python writes the catalogue as types of Python.
type python struct {
	out  bytes.Buffer
	docs map[string]string // by type, and by type and field with a dot
	done map[reflect.Type]bool
}

func (w *python) file() []byte {
	w.done = map[reflect.Type]bool{}
	w.out.WriteString(`"""The chunk types of the log. Written by go test ./chunk -run TestPython -update from package chunk; do not edit.

A type such as TextDelta is what a program writes, and TextDeltaChunk what it reads.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired


class ChunkBase(TypedDict):
    """The members that every chunk has."""

    agentId: str
    """The session of the agent: the followed one, or one of a sub-agent."""
    agentType: str
    """The name of the agent's definition."""
    timestamp: int
    """Unix milliseconds."""
    step: int
    """The step of the agent loop."""
`)
	kinds := slices.Sorted(maps.Keys(plans))
	for _, kind := range kinds {
		p := plans[kind]
		w.parts(p)
		name := p.typ.Name()
		w.class(name, "TypedDict", w.docs[name])
		w.line(fmt.Sprintf("    type: Literal[%q]", p.kind))
		w.members(p)
		w.line("\n\nclass " + name + "Chunk(" + name + ", ChunkBase):\n" + `    """` + name + ` as it is read."""`)
	}
	w.union("Body", "Any chunk that a program writes. The edge adds the members of ChunkBase.", kinds, "")
	w.union("Chunk", "Any chunk of this version. A later server may send types that are not here.", kinds, "Chunk")
	return w.out.Bytes()
}

func (w *python) line(s string) { w.out.WriteString(s + "\n") }

func (w *python) class(name, bases, doc string) {
	w.line("\n\nclass " + name + "(" + bases + "):")
	if doc != "" {
		w.line(`    """` + doc + `"""` + "\n")
	}
}

func (w *python) union(name, doc string, kinds []Type, suffix string) {
	w.line("\n\n" + name + " = Union[")
	for _, kind := range kinds {
		w.line("    " + plans[kind].typ.Name() + suffix + ",")
	}
	w.line("]\n" + `"""` + doc + `"""`)
}

func (w *python) parts(p *plan) {
	for _, f := range p.fields {
		if f.of == nil || w.done[f.of.typ] {
			continue
		}
		w.done[f.of.typ] = true
		w.parts(f.of)
		name := f.of.typ.Name()
		if slices.ContainsFunc(f.of.fields, func(f field) bool { return f.name == "from" }) { // a keyword
			w.line("\n\n" + name + ` = TypedDict(` + fmt.Sprintf("\n    %q,\n    {", name))
			for _, f := range f.of.fields {
				w.line(fmt.Sprintf("        %q: '%s',", f.name, f.python()))
			}
			w.line("    },\n)\n" + `"""` + w.docs[name] + `"""`)
			continue
		}
		w.class(name, "TypedDict", w.docs[name])
		w.members(f.of)
	}
}

func (w *python) members(p *plan) {
	for _, f := range p.fields {
		w.line("    " + f.name + ": " + f.python())
		if text := w.docs[p.typ.Name()+"."+p.typ.Field(f.index).Name]; text != "" {
			w.line(`    """` + text + `"""`)
		}
	}
}

func (f *field) python() string {
	typ := f.pythonValue()
	if f.nullable {
		typ += " | None"
	}
	if f.optional {
		typ = "NotRequired[" + typ + "]"
	}
	return typ
}

func (f *field) pythonValue() string {
	switch f.kind {
	case kindString:
		if f.enum == nil {
			return "str"
		}
		var list []string
		for _, s := range f.enum {
			list = append(list, fmt.Sprintf("%q", s))
		}
		return "Literal[" + strings.Join(list, ", ") + "]"
	case kindBool:
		return "bool"
	case kindInteger:
		return "int"
	case kindNumber:
		return "float"
	case kindObject:
		return "dict[str, Any]"
	case kindStruct:
		return f.of.typ.Name()
	case kindStructs:
		return "list[" + f.of.typ.Name() + "]"
	default:
		return "Any"
	}
}
