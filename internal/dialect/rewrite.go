package dialect

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Rewrite returns v with the value of each member, or element, whose name is "", replaced by the result of change; nil removes it. A value that is not a container is
// returned unchanged.
func Rewrite(v chunk.Value, change func(name string, value chunk.Value) chunk.Value) chunk.Value {
	kind := rawjson.Kind(v)
	if kind != '{' && kind != '[' {
		return v
	}
	out := chunk.Value{kind}
	add := func(name rawjson.Text, value chunk.Value) {
		if value == nil {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if name != nil {
			out = append(append(out, name...), ':')
		}
		out = append(out, value...)
	}
	for name, value := range rawjson.Members(v) {
		add(name, change(string(name.Bytes()), value))
	}
	for value := range rawjson.Elements(v) {
		add(nil, change("", value))
	}
	return append(out, kind+2) // the closing bracket or brace
}

// Without returns v without the members of these names in the outermost levels of v.
func Without(v chunk.Value, levels int, names ...string) chunk.Value {
	if levels == 0 {
		return v
	}
	return Rewrite(v, func(name string, value chunk.Value) chunk.Value {
		if slices.Contains(names, name) {
			return nil
		}
		return Without(value, levels-1, names...)
	})
}
