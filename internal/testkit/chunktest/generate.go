package chunktest

import (
	"fmt"
	"reflect"
	"strings"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// Chunks generates valid chunks of every type, including control records and unknown types, in the form that Decode returns: decoding the output of AppendJSON
// gives an equal value.
func Chunks() *rapid.Generator[chunk.Chunk] {
	return rapid.OneOf(rapid.Custom(func(t *rapid.T) chunk.Chunk {
		return ChunksOf(rapid.SampledFrom(Types()).Draw(t, "type")).Draw(t, "chunk")
	}), Unknowns())
}

// ChunksOf generates valid chunks of one type.
func ChunksOf(typ chunk.Type) *rapid.Generator[chunk.Chunk] {
	sample := reflect.TypeOf(bodyOf(typ))
	return rapid.Custom(func(t *rapid.T) chunk.Chunk {
		v := reflect.New(sample).Elem()
		fill(t, v)
		body, ok := reflect.TypeAssert[chunk.Body](v)
		if !ok {
			panic("chunktest: a generated value is not a chunk.Body")
		}
		return chunk.Chunk{
			AgentID:   IDs().Draw(t, "agentId"),
			AgentType: Texts().Draw(t, "agentType"),
			Timestamp: rapid.Int64Range(0, chunk.MaxTimestamp).Draw(t, "timestamp"),
			Step:      rapid.Int64Range(0, chunk.MaxInteger).Draw(t, "step"),
			Body:      body,
			Extra:     extras(t),
		}
	})
}

// Deltas generates the chunks that can be merged and split.
func Deltas() *rapid.Generator[chunk.Chunk] {
	return rapid.Custom(func(t *rapid.T) chunk.Chunk {
		text := Texts().Draw(t, "text")
		return Of(rapid.SampledFrom([]chunk.Body{
			chunk.TextDelta{Delta: text},
			chunk.Thinking{Content: text},
			chunk.ToolArgStreamDelta{ToolCallID: "c1", Delta: text},
			chunk.ToolArgStreamDelta{ToolCallID: "c2", Delta: text},
		}).Draw(t, "body"))
	})
}

// Unknowns generates chunks of types that are not in the schema.
func Unknowns() *rapid.Generator[chunk.Chunk] {
	return rapid.Custom(func(t *rapid.T) chunk.Chunk {
		kind := "x-" + rapid.StringMatching(`[a-z_.:/-]{0,20}`).Draw(t, "type")
		raw := `{"type":"` + kind + `","agentId":"a","step":7,"timestamp":"later","body":` + Values().Draw(t, "body").String() + `}`
		return chunk.Chunk{AgentID: "a", Step: 7, Body: chunk.Opaque{Kind: chunk.Type(kind), Raw: chunk.Value(raw)}}
	})
}

// Texts generates WTF-8: any characters, characters that JSON escapes, and lone surrogates, but no adjacent halves of a pair.
func Texts() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[ -~]{0,12}`),
		rapid.SampledFrom([]string{
			"\xed\xa0\xbd", "\xed\xb8\x80", "\xed\xb0\x80", "😀", "\"", "\\", "\n", "\r", "\x00", "\x7f",
			"\u2028", "\ufffd", "\ufeff", "\uffff", "</script>", "\n\ndata: x", "\\ud83d", "__proto__", "ä",
		}),
	)
	return rapid.Custom(func(t *rapid.T) string {
		text := ""
		for _, p := range rapid.SliceOfN(piece, 0, 5).Draw(t, "pieces") {
			text = chunk.Concat(text, p)
		}
		return text
	})
}

// IDs generates identifiers: any text without control characters, not empty.
func IDs() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`),
		rapid.StringMatching(`[^\x00-\x1f\x7f]{1,12}`),
	)
}

// Values generates JSON texts on one line, up to three levels deep, with numbers and strings that float64 and UTF-8 cannot represent.
func Values() *rapid.Generator[chunk.Value] { return values(3) }

func values(depth int) *rapid.Generator[chunk.Value] {
	scalar := rapid.OneOf(
		rapid.SampledFrom([]chunk.Value{
			chunk.Value("null"), chunk.Value("true"), chunk.Value("false"), chunk.Value("-0"), chunk.Value("1.0"),
			chunk.Value("1e400"), chunk.Value("9007199254740993"), chunk.Value("123456789012345678901234567890.50"),
			chunk.Value(`"\ud83d"`), chunk.Value(`"\u0041\/\ud83d\ude00\uDC00"`), chunk.Value("[]"), chunk.Value("{ }"),
		}),
		rapid.Custom(func(t *rapid.T) chunk.Value { return quote(Texts().Draw(t, "text")) }),
	)
	if depth == 0 {
		return scalar
	}
	inner := values(depth - 1)
	space := rapid.SampledFrom([]string{"", "", " ", "\t"})
	return rapid.OneOf(scalar, scalar,
		rapid.Custom(func(t *rapid.T) chunk.Value {
			var parts []string
			for _, e := range rapid.SliceOfN(inner, 0, 3).Draw(t, "elements") {
				parts = append(parts, space.Draw(t, "space")+e.String())
			}
			return chunk.Value("[" + strings.Join(parts, ",") + "]")
		}),
		rapid.Custom(func(t *rapid.T) chunk.Value {
			var parts []string
			for _, name := range rapid.SliceOfNDistinct(Texts(), 0, 3, rapid.ID).Draw(t, "names") {
				if len(name) <= chunk.MaxName {
					parts = append(parts, quote(name).String()+space.Draw(t, "space")+":"+inner.Draw(t, "value").String())
				}
			}
			return chunk.Value("{" + strings.Join(parts, ",") + "}")
		}))
}

// quote uses the escapes of the package under test; its tests compare the result with a JSON reader of their own.
func quote(s string) chunk.Value {
	text, err := chunk.Chunk{AgentID: "a", Body: chunk.TextDelta{Delta: s}}.AppendJSON(nil)
	if err != nil {
		panic(fmt.Sprintf("chunktest: %q: %v", s, err))
	}
	_, tail, _ := strings.Cut(string(text), `"delta":`)
	return chunk.Value(strings.TrimSuffix(tail, "}"))
}

func objects() *rapid.Generator[chunk.Value] {
	return rapid.Custom(func(t *rapid.T) chunk.Value {
		return chunk.Value(`{"a":` + Values().Draw(t, "a").String() + `}`)
	})
}

func extras(t *rapid.T) []chunk.Member {
	var all []chunk.Member
	for i := range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "extras") {
		name := fmt.Sprintf("x%d%s", i, Texts().Draw(t, "name"))
		if len(name) <= chunk.MaxName {
			all = append(all, chunk.Member{Name: name, Value: Values().Draw(t, "value")})
		}
	}
	return all
}

// fill sets every field of a struct to a value that the schema allows, by its type, its name and its want tag.
func fill(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[chunk.PatchOp]() {
		v.Set(reflect.ValueOf(patch(t)))
		return
	}
	for i := range v.NumField() {
		f, sf := v.Field(i), v.Type().Field(i)
		if sf.Name == "Extra" {
			f.Set(reflect.ValueOf(extras(t)))
			continue
		}
		if sf.Tag.Get("json") == "-" { // not a member of records
			continue
		}
		if f.Kind() == reflect.Pointer {
			if !rapid.Bool().Draw(t, sf.Name+"?") {
				continue
			}
			f.Set(reflect.New(f.Type().Elem()))
			f = f.Elem()
		}
		fillField(t, f, sf)
	}
}

func fillField(t *rapid.T, f reflect.Value, sf reflect.StructField) {
	want := sf.Tag.Get("want")
	switch f.Interface().(type) {
	case chunk.Value:
		if want == "object" {
			f.SetBytes(objects().Draw(t, sf.Name))
		} else {
			f.SetBytes(Values().Draw(t, sf.Name))
		}
		return
	case chunk.Number:
		f.SetString(rapid.SampledFrom([]string{"0", "17", "-0", "1.50", "1e3", "12345678901234567890"}).Draw(t, sf.Name))
		return
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString(text(sf, want).Draw(t, sf.Name))
	case reflect.Bool:
		f.SetBool(rapid.Bool().Draw(t, sf.Name))
	case reflect.Int64:
		least, most := int64(-chunk.MaxInteger), int64(chunk.MaxInteger)
		if want == "time" {
			least, most = 0, chunk.MaxTimestamp
		}
		f.SetInt(rapid.Int64Range(least, most).Draw(t, sf.Name))
	case reflect.Struct:
		fill(t, f)
	case reflect.Slice:
		for i := range rapid.IntRange(0, 3).Draw(t, sf.Name) {
			f.Grow(1)
			f.SetLen(i + 1)
			fill(t, f.Index(i))
		}
	default:
		panic("chunktest: nothing to fill " + sf.Name + " with")
	}
}

func text(sf reflect.StructField, want string) *rapid.Generator[string] {
	name := sf.Tag.Get("json")
	switch {
	case want == "label":
		return IDs()
	case want == "decimal":
		return rapid.StringMatching(`[0-9]{1,9}(\.[0-9]{1,18})?`)
	case strings.Contains(want, "|"):
		return rapid.SampledFrom(strings.Split(want, "|"))
	case strings.HasSuffix(name, "Id"), name == "eventName", name == "url", name == "filename":
		return IDs().Filter(harmless)
	default:
		return Texts()
	}
}

// harmless reports whether s is allowed as a file name or URL.
func harmless(s string) bool {
	return !strings.Contains(s, "..") && !strings.Contains(strings.ToLower(s), "script:")
}

func patch(t *rapid.T) chunk.PatchOp {
	pointer := rapid.StringMatching(`(/([a-z0-9 ]|~0|~1|-){0,5}){0,4}`)
	op := chunk.PatchOp{
		Op:    rapid.SampledFrom([]string{"add", "remove", "replace", "move", "copy", "test"}).Draw(t, "op"),
		Path:  pointer.Draw(t, "path"),
		Extra: extras(t),
	}
	switch op.Op {
	case "add", "replace", "test":
		op.Value = new(Values().Draw(t, "value"))
	case "move", "copy":
		op.From = new(pointer.Draw(t, "from"))
	}
	return op
}
