package chunk

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestTypeScript compares the types of the TypeScript client with the catalogue.
func TestTypeScript(t *testing.T) {
	const file = "../clients/ts/src/chunks.ts"
	got := (&typeScript{docs: docsOf(t)}).file()
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
		t.Errorf("%s is not that of the catalogue; run go test ./chunk -run TestTypeScript -update", file)
	}
}

// typeScript writes the catalogue as TypeScript types.
type typeScript struct {
	out  bytes.Buffer
	docs map[string]string // by type, and by type and field with a dot
	done map[reflect.Type]bool
}

func (w *typeScript) file() []byte {
	w.done = map[reflect.Type]bool{}
	w.line(`// The chunk types of the log. Written by go test ./chunk -run TestTypeScript -update from package chunk; do not edit.`)
	w.line("")
	w.line("/** The members that every chunk has. */")
	w.line("export interface ChunkBase {")
	w.line("  /** The session of the agent: the followed one, or one of a sub-agent. */")
	w.line("  agentId: string;")
	w.line("  /** The name of the agent's definition. */")
	w.line("  agentType: string;")
	w.line("  /** Unix milliseconds. */")
	w.line("  timestamp: number;")
	w.line("  /** The step of the agent loop. */")
	w.line("  step: number;")
	w.line("}")
	kinds := slices.Sorted(maps.Keys(plans))
	for _, kind := range kinds {
		w.body(plans[kind])
	}
	w.line("")
	w.line("/** Any chunk of this version. A later server may send types that are not here: give every switch a default. */")
	w.line("export type Chunk =")
	for i, kind := range kinds {
		end := ""
		if i == len(kinds)-1 {
			end = ";"
		}
		w.line("  | " + plans[kind].typ.Name() + "Chunk" + end)
	}
	w.line("")
	w.line("/** The type member of a chunk. */")
	w.line(`export type ChunkType = Chunk["type"];`)
	w.line("")
	w.line("/** The chunk of one type. */")
	w.line("export type ChunkOf<T extends ChunkType> = Extract<Chunk, { type: T }>;")
	return w.out.Bytes()
}

func (w *typeScript) line(s string) { w.out.WriteString(s + "\n") }

// body writes the type of a chunk, after those of the parts of its body.
func (w *typeScript) body(p *plan) {
	w.parts(p)
	w.line("")
	w.doc("", p.typ.Name())
	w.line("export interface " + p.typ.Name() + "Chunk extends ChunkBase {")
	w.line(fmt.Sprintf("  type: %q;", p.kind))
	w.members(p)
	w.line("}")
}

func (w *typeScript) parts(p *plan) {
	for _, f := range p.fields {
		if f.of == nil || w.done[f.of.typ] {
			continue
		}
		w.done[f.of.typ] = true
		w.parts(f.of)
		w.line("")
		w.doc("", f.of.typ.Name())
		w.line("export interface " + f.of.typ.Name() + " {")
		w.members(f.of)
		w.line("}")
	}
}

func (w *typeScript) members(p *plan) {
	for _, f := range p.fields {
		w.doc("  ", p.typ.Name()+"."+p.typ.Field(f.index).Name)
		name := "  " + f.name
		if f.optional {
			name += "?"
		}
		typ := f.typeScript()
		if f.nullable {
			typ += " | null"
		}
		w.line(name + ": " + typ + ";")
	}
}

func (w *typeScript) doc(indent, name string) {
	if text := w.docs[name]; text != "" {
		w.line(indent + "/** " + text + " */")
	}
}

func (f *field) typeScript() string {
	switch f.kind {
	case kindString:
		if f.enum == nil {
			return "string"
		}
		var list []string
		for _, s := range f.enum {
			list = append(list, fmt.Sprintf("%q", s))
		}
		return strings.Join(list, " | ")
	case kindBool:
		return "boolean"
	case kindInteger, kindNumber:
		return "number"
	case kindObject:
		return "Record<string, unknown>"
	case kindStruct:
		return f.of.typ.Name()
	case kindStructs:
		return f.of.typ.Name() + "[]"
	default:
		return "unknown"
	}
}

// docsOf returns the comments of the types in body.go and of their fields.
func docsOf(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "body.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			typ, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			docs[typ.Name.Name] = oneLine(d.Doc)
			if s, ok := typ.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						docs[typ.Name.Name+"."+name.Name] = oneLine(f.Comment)
					}
				}
			}
		}
	}
	return docs
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
