package chunk_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A second reader of JSON, written for simplicity: numbers are their text, strings are their UTF-16 code units. The tests compare the results of the package
// with it.

type (
	jsonNumber string
	jsonString string // UTF-16 code units, each as four hex digits
	jsonObject map[jsonString]any
)

type reader struct {
	s   string
	err error
}

func parseJSON(text []byte) (any, error) {
	r := &reader{s: string(text)}
	v := r.value()
	r.space()
	if r.err == nil && r.s != "" {
		r.err = fmt.Errorf("%q is left", r.s)
	}
	return v, r.err
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func mustParse(t failer, text []byte) any {
	t.Helper()
	v, err := parseJSON(text)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func (r *reader) space() { r.s = strings.TrimLeft(r.s, " \t\r\n") }

func (r *reader) take(prefix string) bool {
	r.space()
	rest, ok := strings.CutPrefix(r.s, prefix)
	r.s = rest
	return ok
}

func (r *reader) want(prefix string) {
	if !r.take(prefix) && r.err == nil {
		r.err = fmt.Errorf("want %s at %q", prefix, r.s)
		r.s = ""
	}
}

func (r *reader) value() any {
	switch {
	case r.err != nil:
		return nil
	case r.take("null"):
		return nil
	case r.take("true"):
		return true
	case r.take("false"):
		return false
	case r.take("["):
		return r.array()
	case r.take("{"):
		return r.object()
	case r.take(`"`):
		return r.str()
	default:
		n := len(r.s) - len(strings.TrimLeft(r.s, "+-0123456789.eE"))
		if n == 0 {
			r.want("a value")
		}
		number := jsonNumber(r.s[:n])
		r.s = r.s[n:]
		return number
	}
}

func (r *reader) array() any {
	list := []any{}
	for r.err == nil && !r.take("]") {
		if len(list) > 0 {
			r.want(",")
		}
		list = append(list, r.value())
	}
	return list
}

func (r *reader) object() any {
	o := jsonObject{}
	for r.err == nil && !r.take("}") {
		if len(o) > 0 {
			r.want(",")
		}
		r.want(`"`)
		name := r.str()
		if _, twice := o[name]; twice {
			r.err = fmt.Errorf("%s comes twice", name)
		}
		r.want(":")
		o[name] = r.value()
	}
	return o
}

func (r *reader) str() jsonString {
	var units []uint16
	for {
		switch {
		case r.s == "":
			r.want("a closing quote")
			return ""
		case r.s[0] == '"':
			r.s = r.s[1:]
			return unitsOf(units)
		case r.s[0] == '\\' && len(r.s) > 5 && r.s[1] == 'u':
			n, err := strconv.ParseUint(r.s[2:6], 16, 16)
			if err != nil {
				r.err = err
			}
			units = append(units, uint16(n))
			r.s = r.s[6:]
		case r.s[0] == '\\' && len(r.s) > 1:
			i := strings.IndexByte(`"\/bfnrt`, r.s[1])
			if i < 0 {
				r.err = fmt.Errorf("escape %q", r.s[1])
				return ""
			}
			units = append(units, uint16("\"\\/\b\f\n\r\t"[i]))
			r.s = r.s[2:]
		default:
			c, n := utf8.DecodeRuneInString(r.s)
			units = utf16.AppendRune(units, c)
			r.s = r.s[n:]
		}
	}
}

// unitsOf has four hexadecimal digits for each unit; texts of tests have millions of them.
func unitsOf(units []uint16) jsonString {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 4*len(units))
	for _, u := range units {
		b = append(b, digits[u>>12], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	return jsonString(b)
}

// key is the name of a member in a jsonObject.
func key(name string) jsonString { return unitsOf(utf16.Encode([]rune(name))) }

func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameJSON)
	case jsonObject:
		b, ok := b.(jsonObject)
		return ok && maps.EqualFunc(a, b, sameJSON)
	default:
		return a == b
	}
}

// render writes v with a random order of members, white space and escapes.
func render(rng *rand.Rand, v any) string {
	space := func() string { return []string{"", "", "", " ", "\n", "\t \r\n"}[rng.IntN(6)] }
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case jsonNumber:
		return string(v)
	case jsonString:
		return renderString(rng, v)
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, space()+render(rng, e)+space())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case jsonObject:
		var parts []string
		for name, e := range v {
			parts = append(parts, space()+renderString(rng, name)+space()+":"+space()+render(rng, e)+space())
		}
		slices.Sort(parts) // the order of a map does not depend on the seed
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return "{" + strings.Join(parts, ",") + "}"
	default:
		panic(fmt.Sprintf("no JSON: %T", v))
	}
}

// renderString escapes the characters that must be escaped, and others at random.
func renderString(rng *rand.Rand, s jsonString) string {
	var b strings.Builder
	b.WriteByte('"')
	units := make([]uint16, len(s)/4)
	for i := range units {
		n, err := strconv.ParseUint(string(s[4*i:4*i+4]), 16, 16)
		if err != nil {
			panic(err)
		}
		units[i] = uint16(n)
	}
	for i := 0; i < len(units); i++ {
		u := rune(units[i])
		if i+1 < len(units) && rng.IntN(2) == 0 {
			if c := utf16.DecodeRune(u, rune(units[i+1])); c != utf8.RuneError {
				b.WriteRune(c)
				i++
				continue
			}
		}
		if u < ' ' || u == '"' || u == '\\' || utf16.IsSurrogate(u) || rng.IntN(6) == 0 {
			fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[rng.IntN(2)], u)
		} else {
			b.WriteRune(u)
		}
	}
	b.WriteByte('"')
	return b.String()
}
