package codec

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// packed returns a map {"type":"text_delta","a":<value>}.
func packed(value string) string { return "\x82\xa4type\xaatext_delta\xa1a" + value }

func packedHeader() map[string][]string {
	return with(map[string][]string{"ce-datacontenttype": {mediaMsgpack}})
}

// refusedPacked has bodies that are rejected before they reach the library.
func refusedPacked() map[string]string {
	return map[string]string{
		"B01 array32 of 2^32-1":           "\xDD\xFF\xFF\xFF\xFF",
		"B02 map32 of 2^32-1":             "\xDF\xFF\xFF\xFF\xFF",
		"B03 str32 of 2^32-1":             "\xDB\xFF\xFF\xFF\xFF",
		"B04 bin32 of 2^32-1":             "\xC6\xFF\xFF\xFF\xFF",
		"B05 ext32 of 2^32-1":             "\xC9\xFF\xFF\xFF\xFF",
		"B01 inside":                      packed("\xDD\xFF\xFF\xFF\xFF"),
		"B02 inside":                      packed("\xDF\xFF\xFF\xFF\xFF"),
		"B03 inside":                      packed("\xDB\xFF\xFF\xFF\xFF"),
		"B04 inside":                      packed("\xC6\xFF\xFF\xFF\xFF"),
		"B05 inside":                      packed("\xC9\xFF\xFF\xFF\xFF"),
		"map32 as a key's length":         "\x81\xDB\xFF\xFF\xFF\xFF",
		"B06 fixext without body":         packed("\xD4"),
		"fixext with body":                packed("\xD4\x01\x00"),
		"B16 timestamp":                   packed("\xD6\xFF\x00\x00\x00\x00"),
		"binary":                          packed("\xC4\x01a"),
		"B07 c1":                          packed("\xC1"),
		"B14 trailing bytes":              packed("\xC0") + "\xC0",
		"B18 truncated":                   packed("\xA5abcd"),
		"truncated in a length":           packed("\xDA\x00"),
		"truncated in a number":           packed("\xCF\x00\x00"),
		"truncated in a float":            packed("\xCB\x00\x00"),
		"truncated in a short float":      packed("\xCA\x00\x00"),
		"truncated before a value":        packed(""),
		"truncated before a key":          "\x82\xa4type\xaatext_delta",
		"B08 300,000 nested arrays":       packed(strings.Repeat("\x91", 300_000)),
		"B09 100,000 nested maps":         strings.Repeat("\x81\xa1a", 100_000),
		"B19 1,000 promises of 64 k":      packed(strings.Repeat("\xDC\xFF\xFF", 1000)),
		"B19 side by side":                packed("\xDC\x03\xE8" + strings.Repeat("\xDC\xFF\xFF", 1000)),
		"one level too deep":              packed(strings.Repeat("\x91", chunk.MaxDepth-1) + "\x90"),
		"one value too many":              packed("\xDC" + string(binary.BigEndian.AppendUint16(nil, chunk.MaxValues-2)) + strings.Repeat("\x00", chunk.MaxValues-2)),
		"B11 number as key":               "\x82\xa4type\xaatext_delta\x01\x01",
		"nil as key":                      "\x82\xa4type\xaatext_delta\xC0\x01",
		"binary as key":                   "\x82\xa4type\xaatext_delta\xC4\x01a\x01",
		"B12 duplicate key":               "\x82\xa4type\xaatext_delta\xa4type\xaatext_delta",
		"duplicate key, other length":     "\x82\xa4type\xaatext_delta\xd9\x04type\xaatext_delta",
		"duplicate key, long lengths":     "\x82\xda\x00\x04type\xaatext_delta\xdb\x00\x00\x00\x04type\xaatext_delta",
		"duplicate among many":            packed("\xDE\x00\x10" + manyKeys(15) + "\xa1c\x00"),
		"B13 array as key":                "\x82\xa4type\xaatext_delta\x90\x01",
		"B15 string that is not UTF-8":    packed("\xA1\xFF"),
		"key that is not UTF-8":           "\x82\xa4type\xaatext_delta\xA1\xFF\x00",
		"surrogate as UTF-8":              packed("\xA3\xED\xA0\x80"),
		"B17 NaN":                         packed("\xCB\x7F\xF8\x00\x00\x00\x00\x00\x00"),
		"B17 short NaN":                   packed("\xCA\x7F\xC0\x00\x00"),
		"infinity":                        packed("\xCB\x7F\xF0\x00\x00\x00\x00\x00\x00"),
		"negative short infinity":         packed("\xCA\xFF\x80\x00\x00"),
		"empty":                           "",
		"nil":                             "\xC0",
		"array":                           "\x90",
		"JSON":                            body,
		"no type":                         "\x80",
		"another type":                    "\x81\xa4type\xa8thinking",
		"type a number":                   "\x81\xa4type\x01",
		"type with a control character":   "\x81\xa4type\xa2a\x01",
		"more promised than can be there": packed("\xDE\xFF\xFF" + manyKeys(20)),
	}
}

// manyKeys returns n members: "a" is 0, "b" is 0 and so on.
func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("\xa1" + string(rune('a'+i)) + "\x00")
	}
	return b.String()
}

func TestPackedRefusals(t *testing.T) {
	for name, b := range refusedPacked() {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(Stored{Session: session, Seq: 1, Header: packedHeader(), Data: []byte(b)})
			wantRefusal(t, err, "data")
		})
	}
}

// Lengths in the input may be wrong; the decoder must not allocate by them.
func TestPackedBombsAllocateLittle(t *testing.T) {
	header := packedHeader()
	for name, b := range refusedPacked() {
		data := []byte(b)
		if got := allocated(func() { _, _ = Decode(Stored{Session: session, Seq: 1, Header: header, Data: data}) }); got > 1<<20 {
			t.Errorf("%s: %d bytes allocated for a message of %d", name, got, len(data))
		}
	}
}

// allocated returns the number of bytes that f allocates. No other goroutine runs meanwhile.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestPackedValues(t *testing.T) {
	f64 := func(f float64) string {
		return "\xCB" + string(binary.BigEndian.AppendUint64(nil, math.Float64bits(f)))
	}
	f32 := func(f float32) string {
		return "\xCA" + string(binary.BigEndian.AppendUint32(nil, math.Float32bits(f)))
	}
	for name, tc := range map[string]struct{ packed, json string }{
		"nil, booleans":             {"\x93\xC0\xC2\xC3", `[null,false,true]`},
		"small integers":            {"\x94\x00\x7F\xFF\xE0", `[0,127,-1,-32]`},
		"wider integers":            {"\x94\xCC\xFF\xCD\xFF\xFF\xCE\xFF\xFF\xFF\xFF\xD0\x80", `[255,65535,4294967295,-128]`},
		"negative integers":         {"\x92\xD1\x80\x00\xD2\x80\x00\x00\x00", `[-32768,-2147483648]`},
		"largest integers":          {"\x92\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xD3\x80\x00\x00\x00\x00\x00\x00\x00", `[18446744073709551615,-9223372036854775808]`},
		"longer forms than needed":  {"\x93\xCF\x00\x00\x00\x00\x00\x00\x00\x01\xD3\x00\x00\x00\x00\x00\x00\x00\x02\xDB\x00\x00\x00\x01x", `[1,2,"x"]`},
		"a float":                   {f64(0.1), `0.1`},
		"a whole float":             {f64(1700000000123), `1700000000123`},
		"minus zero":                {f64(math.Copysign(0, -1)), `-0`},
		"a short float":             {f32(0.1), `0.10000000149011612`},
		"the largest float":         {f64(math.MaxFloat64), `1.7976931348623157e+308`},
		"the smallest float":        {f64(5e-324), `5e-324`},
		"small":                     {f64(1e-7), `1e-7`},
		"not so small":              {f64(1e-6), `0.000001`},
		"large":                     {f64(1e21), `1e+21`},
		"not so large":              {f64(1e20), `100000000000000000000`},
		"strings":                   {"\x93\xA0\xA3\xE2\x82\xAC\xD9\x05a\n\"\\\x00", `["","€","a\n\"\\\u0000"]`},
		"long strings":              {"\x92\xDA\x01\x00" + strings.Repeat("y", 256) + "\xDB\x00\x01\x00\x00" + strings.Repeat("z", 65536), `["` + strings.Repeat("y", 256) + `","` + strings.Repeat("z", 65536) + `"]`},
		"order of members":          {"\x83\xa1z\x01\xa1a\x02\xa1m\x80", `{"z":1,"a":2,"m":{}}`},
		"many members":              {"\xDE\x00\x14" + manyKeys(20), manyJSON(20)},
		"keys with longer lengths":  {"\x83\xd9\x01a\x01\xda\x00\x01b\x02\xdb\x00\x00\x00\x01c\x03", `{"a":1,"b":2,"c":3}`},
		"wide containers":           {"\x92\xDF\x00\x00\x00\x01\xa0\x90\xDD\x00\x00\x00\x01\x90", `[{"":[]},[[]]]`},
		"as deep as allowed":        {strings.Repeat("\x91", chunk.MaxDepth-2) + "\x90", strings.Repeat("[", chunk.MaxDepth-1) + strings.Repeat("]", chunk.MaxDepth-1)},
		"as many values as allowed": {"\xDC" + string(binary.BigEndian.AppendUint16(nil, chunk.MaxValues-3)) + strings.Repeat("\x00", chunk.MaxValues-3), "[0" + strings.Repeat(",0", chunk.MaxValues-4) + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			rec, err := Decode(Stored{Session: session, Seq: 1, Header: packedHeader(), Data: []byte(packed(tc.packed))})
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"type":"text_delta","a":` + tc.json + `}`; string(rec.Data) != want {
				t.Errorf("got %.200s\nwant %.200s", rec.Data, want)
			}
		})
	}
}

func manyJSON(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"` + string(rune('a'+i)) + `":0`)
	}
	return "{" + b.String()[1:] + "}"
}

// Numbers keep each digit, or are not packed at all.
func TestNumbersThatArePacked(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-1": true, "9007199254740993": true, "18446744073709551615": true, "-9223372036854775808": true,
		"0.1": true, "-0": true, "-0.5": true, "1e+21": true, "1e-7": true, "5e-324": true, "1.7976931348623157e+308": true,
		"100000000000000000000": true, // exactly a float64, and its shortest form
		"18446744073709551616":  false, "-9223372036854775809": false, "1e400": false, "1e-400": false,
		"1.0": false, "1e2": false, "0.10": false, "-0.0": false, "1E+21": false, "1e21": false,
		"0.10000000000000000001": false, "123456789.123456789123456789": false,
	} {
		object := `{"a":` + text + `}`
		b, ok := toMsgpack([]byte(object))
		if ok != want {
			t.Errorf("%s packed: %v, want %v", text, ok, want)
		}
		if !ok {
			continue
		}
		if back, err := fromMsgpack(b); err != nil || string(back) != object {
			t.Errorf("%s came back as %s, %v", text, back, err)
		}
	}
}

func TestValuesThatAreNotPacked(t *testing.T) {
	for name, text := range map[string]string{
		"a lone surrogate":           `{"a":"\ud83d"}`,
		"a lone surrogate in a name": `{"\ude00":1}`,
		"a duplicate name":           `{"a":1,"a":2}`,
		"too deep":                   `{"a":` + strings.Repeat("[", chunk.MaxDepth) + strings.Repeat("]", chunk.MaxDepth) + `}`,
		"too many values":            `{"a":[0` + strings.Repeat(",0", chunk.MaxValues) + `]}`,
		"no object":                  `7`,
		"no JSON":                    `{"a"`,
		"nothing":                    ``,
	} {
		if _, ok := toMsgpack([]byte(text)); ok {
			t.Errorf("%s: packed", name)
		}
	}
}

// The limit of values counts no member names, neither here nor in package chunk.
func TestManyMembersArePacked(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"type":"text_delta"`)
	for i := range chunk.MaxValues - 2 {
		b.WriteString(`,"` + strconv.Itoa(i) + `":0`)
	}
	b.WriteString("}")
	packed, ok := toMsgpack([]byte(b.String()))
	if !ok {
		t.Fatal("not packed")
	}
	rec, err := Decode(Stored{Session: session, Seq: 1, Header: packedHeader(), Data: packed})
	if err != nil || string(rec.Data) != b.String() {
		t.Errorf("came back as %.80s, %v", rec.Data, err)
	}
}

// Any value that is packed is the same after unpacking, in the same order, and other msgpack libraries read the same numbers. Other values are not packed.
func TestMsgpackKeepsTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(drawObject(3).Draw(t, "object"))
		b, ok := toMsgpack(text)
		if !ok {
			t.Fatalf("%s is not packed", text)
		}
		back, err := fromMsgpack(b)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := tokensOf(t, text), tokensOf(t, back); a != b {
			t.Fatalf("%s\ncame back as\n%s", a, b)
		}
		var v map[string]any
		if err := msgpack.Unmarshal(b, &v); err != nil {
			t.Fatalf("the library: %v", err)
		}
	})
}

// drawObject generates the text of objects whose values msgpack can represent.
func drawObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfNDistinct(rapid.String().Filter(utf8.ValidString), 0, 20, rapid.ID[string]).Draw(t, "names")
		members := make([]string, len(names))
		for i, name := range names {
			members[i] = drawString(t, name) + ": " + drawValue(depth).Draw(t, "value")
		}
		return "{" + strings.Join(members, " ,") + "}"
	})
}

func drawValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := 6
		if depth > 0 {
			kinds = 8
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false", "-0", "{}", "[]"}).Draw(t, "literal")
		case 1:
			return strconv.FormatInt(rapid.Int64().Draw(t, "int"), 10)
		case 2:
			return strconv.FormatUint(rapid.Uint64().Draw(t, "uint"), 10)
		case 3:
			f := rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }).Draw(t, "float")
			return string(appendFloat(nil, f))
		case 4, 5:
			return drawString(t, rapid.String().Filter(utf8.ValidString).Draw(t, "string"))
		case 6:
			return drawObject(depth-1).Draw(t, "object")
		default:
			return "[" + strings.Join(rapid.SliceOfN(drawValue(depth-1), 0, 20).Draw(t, "array"), ",\n") + "]"
		}
	})
}

// drawString writes s as JSON, with a random choice of escapes.
func drawString(t *rapid.T, s string) string {
	quoted, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.ContainsRune(quoted, '\\') && rapid.Bool().Draw(t, "escape") {
		return strings.ReplaceAll(string(quoted), "a", `\u0061`)
	}
	return string(quoted)
}

// tokensOf lists the tokens of a JSON text with unescaped strings: texts with the same list have the same value, including the order of members and the digits
// of numbers.
func tokensOf(t interface{ Fatalf(string, ...any) }, text []byte) string {
	dec := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	var b strings.Builder
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b.WriteString(tok.Kind().String() + strconv.Quote(tok.String()) + "\n")
		if dec.StackDepth() == 0 {
			return b.String()
		}
	}
}

// FuzzMsgpack: no input causes a panic, and accepted input is JSON that packs to the same value.
func FuzzMsgpack(f *testing.F) {
	for _, b := range refusedPacked() {
		if len(b) < 1000 {
			f.Add([]byte(b))
		}
	}
	good, _ := toMsgpack([]byte(body))
	f.Add(good)
	f.Add([]byte(packed("\x94\xCB\x3F\xB9\x99\x99\x99\x99\x99\x9A\xCA\x3F\x00\x00\x00\xD3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x81\xa1a\x90")))
	f.Fuzz(func(t *testing.T, b []byte) {
		guarded := checkMsgpack(b) == nil
		text, err := fromMsgpack(b)
		if guarded != (err == nil) {
			t.Fatalf("the guard says %v, the library %v", guarded, err)
		}
		if err != nil {
			return
		}
		info, ok := rawjson.ScanObject(text, rawjson.Limits{Levels: chunk.MaxDepth}, nil)
		if !ok || info.HasLineBreaks {
			t.Fatalf("no JSON on one line: %q", text)
		}
		again, ok := toMsgpack(text)
		if !ok {
			t.Fatalf("%q does not pack", text)
		}
		if back, err := fromMsgpack(again); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%q became %q (%v)", text, back, err)
		}
	})
}
