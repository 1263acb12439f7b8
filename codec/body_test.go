package codec

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
)

// TestJSONBodies has the bodies that a reader can receive, and the result of Decode.
func TestJSONBodies(t *testing.T) {
	obj := func(rest string) string { return `{"type":"text_delta"` + rest + `}` }
	for name, tc := range map[string]struct {
		body string
		want string // "" if rejected, "=" for the same bytes
	}{
		"J01 empty":                       {"", ""},
		"J02 white space":                 {" \t\r\n", ""},
		"J03 null":                        {"null", ""},
		"J04 array":                       {`[{"type":"text_delta"}]`, ""},
		"J05 string":                      {`"text_delta"`, ""},
		"J06 truncated":                   {`{"type":"text_delta"`, ""},
		"J07 two documents":               {obj("") + obj(""), ""},
		"J08 trailing comma":              {`{"type":"text_delta",}`, ""},
		"J09 comment":                     {obj(`/* */`), ""},
		"J10 NaN":                         {obj(`,"a":NaN`), ""},
		"J11 single quotes":               {`{'type':'text_delta'}`, ""},
		"J12 byte order mark":             {"\uFEFF" + obj(""), ""},
		"J13 UTF-16":                      {"{\x00\"\x00", ""},
		"J14 invalid UTF-8":               {obj(`,"a":"` + "\xFF" + `"`), ""},
		"J15 overlong":                    {obj(`,"a":"` + "\xC0\xAF" + `"`), ""},
		"J16 surrogate as UTF-8":          {obj(`,"a":"` + "\xED\xA0\x80" + `"`), ""},
		"J17 invalid UTF-8 in a name":     {obj(`,"` + "\xFF" + `":1`), ""},
		"J18 lone surrogate escape":       {obj(`,"a":"\ud83d"`), "="},
		"J20 NUL escaped":                 {obj(`,"a":"\u0000"`), "="},
		"J22 raw control":                 {obj(`,"a":"` + "\x01" + `"`), ""},
		"J23 raw newline in a string":     {obj(`,"a":"` + "\n" + `"`), ""},
		"J23 raw CR in a name":            {obj(`,"a` + "\r" + `":1`), ""},
		"J24 type twice":                  {obj(`,"type":"text_delta"`), ""},
		"J24 type twice by escape":        {obj(`,"ty\u0070e":"thinking"`), ""},
		"J25 type in capitals":            {obj(`,"Type":"thinking"`), "="},
		"type by escape alone":            {`{"\u0074ype":"text\u005fdelta"}`, "="},
		"type of a nested object":         {`{"a":{"type":"text_delta"}}`, ""},
		"type a number":                   {`{"type":1}`, ""},
		"type half a pair":                {`{"type":"\ud800"}`, ""},
		"no type":                         {`{}`, ""},
		"another type":                    {`{"type":"thinking"}`, ""},
		"J30 1e400":                       {obj(`,"a":1e400`), "="},
		"J31 200 kB integer":              {obj(`,"a":` + strings.Repeat("9", 200_000)), "="},
		"J33 minus zero":                  {obj(`,"a":[-0,-0.0,1.0,1E+2]`), "="},
		"leading zero":                    {obj(`,"a":01`), ""},
		"bare minus":                      {obj(`,"a":-`), ""},
		"bare point":                      {obj(`,"a":1.`), ""},
		"bare exponent":                   {obj(`,"a":1e`), ""},
		"plus":                            {obj(`,"a":+1`), ""},
		"J37 10,000 arrays":               {obj(`,"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)), ""},
		"J38 300,000 unclosed":            {obj(`,"a":` + strings.Repeat("[", 300_000)), ""},
		"J39 50,000 objects":              {strings.Repeat(`{"a":`, 50_000), ""},
		"as deep as allowed":              {obj(`,"a":` + strings.Repeat("[", chunk.MaxDepth-1) + strings.Repeat("]", chunk.MaxDepth-1)), "="},
		"one deeper":                      {obj(`,"a":` + strings.Repeat("[", chunk.MaxDepth) + strings.Repeat("]", chunk.MaxDepth)), ""},
		"J40 100,000 members":             {obj(strings.Repeat(`,"a":1`, 100_000)), "="},
		"J41 500 kB name":                 {obj(`,"` + strings.Repeat("a", 500_000) + `":1`), "="},
		"J44 fields of SSE in the text":   {obj(`,"a":"x\n\ndata: y\rid: 7"`), "="},
		"every escape":                    {obj(`,"a":"\"\\\/\b\f\n\r\t\u00e9"`), "="},
		"a string without end":            {`{"type":"text_delta`, ""},
		"unknown escape":                  {obj(`,"a":"\x"`), ""},
		"short escape":                    {obj(`,"a":"\u12"`), ""},
		"ends in an escape":               {`{"type":"text_delta\`, ""},
		"literals":                        {obj(`,"a":[true,false,null]`), "="},
		"half a literal":                  {obj(`,"a":tru}`), ""},
		"no colon":                        {`{"type" "text_delta"}`, ""},
		"no comma":                        {`{"type":"text_delta" "a":1}`, ""},
		"name a number":                   {`{1:2}`, ""},
		"NUL at the end":                  {obj("") + "\x00", ""},
		"NUL in place of a value":         {"{\"type\":\"text_delta\",\"a\":\x00}", ""},
		"vertical tab":                    {"\v" + obj(""), ""},
		"spaces stay":                     {" {\t\"type\" : \"text_delta\" } ", "="},
		"empty containers":                {obj(`,"a":[],"b":{},"c":[ ],"d":{ }`), "="},
		"a trailing newline goes":         {obj(``) + "\n", obj(``)},
		"line breaks between tokens go":   {"{\r\n  \"type\": \"text_delta\",\n  \"a\": [1,\n2.50, \"< >\u2028\"]\n}\n", `{"type":"text_delta","a":[1,2.50,"< >` + "\u2028" + `"]}`},
		"one line break makes it compact": {"{\n\"type\" : \"text_delta\"}", obj(``)},
	} {
		t.Run(name, func(t *testing.T) {
			rec, err := Decode(Stored{Session: session, Seq: 1, Header: goodHeader(), Data: []byte(tc.body)})
			if tc.want == "" {
				wantRefusal(t, err, "data")
				return
			}
			if tc.want == "=" {
				tc.want = tc.body
			}
			if err != nil || string(rec.Data) != tc.want {
				t.Errorf("got %.80q, %v\nwant %.80q", rec.Data, err, tc.want)
			}
		})
	}
}

// JSON is returned without a copy: a body of a megabyte is scanned and not copied.
func TestDataAliasesTheStoredBytes(t *testing.T) {
	data := []byte(body)
	rec, err := Decode(Stored{Session: session, Seq: 1, Header: goodHeader(), Data: data})
	if err != nil {
		t.Fatal(err)
	}
	if &rec.Data[0] != &data[0] {
		t.Error("the body was copied")
	}
	event := structured(`,"data":` + body + `,"ext":"x"`)
	rec, err = Decode(Stored{Session: session, Seq: 1, Data: event})
	if err != nil {
		t.Fatal(err)
	}
	_ = append(rec.Data, "!!!"...)
	if !strings.HasSuffix(string(event), `,"ext":"x"}`) {
		t.Errorf("an append to Data wrote into the message: %s", event)
	}
}

// isBodySlow is the reference for the check of a body: the standard library, which needs several passes.
func isBodySlow(b []byte) bool {
	trimmed := strings.TrimLeft(string(b), " \t\r\n")
	return json.Valid(b) && utf8.Valid(b) && strings.HasPrefix(trimmed, "{") && depthOf(trimmed) <= chunk.MaxDepth
}

// depthOf returns the depth of valid JSON.
func depthOf(s string) int {
	deepest, depth, inString := 0, 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}
