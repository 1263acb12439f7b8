package row_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/sink/row"
)

var update = flag.Bool("update", false, "write the tables of docs/reference/tables.md")

const reference = "../../docs/reference/tables.md"

// TestReference compares docs/reference/tables.md with the structs of the rows and their comments.
func TestReference(t *testing.T) {
	comments := commentsOf(t)
	var text strings.Builder
	for _, table := range []struct {
		name    string
		of      reflect.Type
		columns []row.Column
	}{
		{"events", reflect.TypeFor[row.Event](), row.Columns[row.Event]()},
		{"observations", reflect.TypeFor[row.Observation](), row.Columns[row.Observation]()},
		{"gaps", reflect.TypeFor[row.Gap](), row.Columns[row.Gap]()},
	} {
		text.WriteString("\n## " + table.name + "\n\n| column | type | meaning |\n|---|---|---|\n")
		for _, c := range table.columns {
			typ := types[c.Type]
			if c.Optional {
				typ += ", null"
			}
			field := table.of.FieldByIndex(c.Index).Name
			owner := table.of.Name()
			if len(c.Index) > 1 {
				owner = "Place"
			}
			meaning := comments[owner+"."+field]
			if meaning == "" {
				t.Errorf("%s.%s has no comment", owner, field)
			}
			text.WriteString("| `" + c.Name + "` | " + typ + " | " + meaning + " |\n")
		}
	}
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "go test ./row -run TestReference -update` -->\n", "\n<!-- end of tables -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the marks around the tables", reference)
	}
	want := before + begin + text.String() + end + after
	if *update {
		if err := os.WriteFile(reference, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is out of date: run this test with -update", reference)
	}
}

var types = map[row.Type]string{
	row.TypeText: "text", row.TypeInt: "int", row.TypeInt32: "int", row.TypeBool: "bool", row.TypeTime: "time", row.TypeJSON: "json", row.TypeMoney: "money",
}

// commentsOf returns the comments after the fields of the structs in row.go.
func commentsOf(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "row.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if fields, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					comments[spec.Name.Name+"."+name.Name] = strings.TrimSpace(f.Comment.Text())
				}
			}
		}
		return true
	})
	return comments
}
