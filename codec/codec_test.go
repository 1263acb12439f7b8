package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	cejs "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// everyChunk returns a full and a minimal chunk of every type, and chunks that the two body formats encode differently.
func everyChunk(tb testing.TB) []chunk.Chunk {
	tb.Helper()
	var all []chunk.Chunk
	for _, sample := range chunktest.All() {
		all = append(all, sample.Chunk)
	}
	for _, line := range []string{
		`{"type":"thinking","agentId":"s1","agentType":"demo","timestamp":1700000000000,"step":0,"content":"half \ud83d","isComplete":true}`,
		`{"type":"output","agentId":"s1","agentType":"demo","timestamp":0,"step":1,"output":{"n":9007199254740993,"f":1.0,"big":1e400}}`,
		`{"type":"new_kind%20","agentId":"s1","agentType":"","timestamp":253402300799999,"step":1,"z":{"a":[]}}`,
	} {
		c, err := chunk.Decode([]byte(line))
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// TestEncodedMessageBytes compares an encoded message byte by byte.
func TestEncodedMessageBytes(t *testing.T) {
	c, err := chunk.Decode([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for format, contentType := range map[Format]string{FormatJSON: "application/json", FormatMsgpack: "application/msgpack"} {
		m, err := Encode(Envelope{Session: session, Epoch: 3, Ordinal: 17, Format: format}, c)
		if err != nil {
			t.Fatal(err)
		}
		want := nats.Header{
			"ce-specversion":     {"1.0"},
			"ce-id":              {"3-17"},
			"ce-source":          {"/acme/s1/s1-child"},
			"ce-type":            {"text_delta"},
			"ce-time":            {"2023-11-14T22:13:20.123Z"},
			"ce-datacontenttype": {contentType},
		}
		if have := nats.Header(m.Header); !reflect.DeepEqual(have, want) {
			t.Errorf("header %v\nwant   %v", have, want)
		}
		if format == FormatJSON && string(m.Data) != body {
			t.Errorf("body %s", m.Data)
		}
		if format == FormatMsgpack && (m.Data[0] != 0x86 || len(m.Data) >= len(body)) {
			t.Errorf("body % x", m.Data)
		}
		if format.String() != contentType {
			t.Errorf("%d is called %s", format, format)
		}
	}
}

// Each header value has its own array: appending to one must not overwrite the next.
func TestHeaderValuesAreApart(t *testing.T) {
	m := EncodeJSON(Envelope{Session: session, Epoch: 3, Ordinal: 17}, Header{Type: chunk.TypeTextDelta}, nil)
	for name := range m.Header {
		m.Header[name] = append(m.Header[name], "more")
	}
	for name, values := range m.Header {
		if len(values) != 2 || values[0] == "more" {
			t.Errorf("%s: %q", name, values)
		}
	}
}

func TestHotPathEqualsEncode(t *testing.T) {
	for _, c := range everyChunk(t) {
		slow, err := Encode(Envelope{Session: session, Epoch: 1, Ordinal: 2}, c)
		if err != nil {
			t.Fatal(err)
		}
		text, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		fast := EncodeJSON(Envelope{Session: session, Epoch: 1, Ordinal: 2}, Header{Type: c.Type(), Timestamp: c.Timestamp}, text)
		if !reflect.DeepEqual(fast, slow) {
			t.Errorf("%s:\nEncodeJSON %v\nEncode     %v", c.Type(), fast, slow)
		}
	}
}

// Decode returns what Encode encoded, in both formats: the same position and the same chunk, with the same bytes if the format is JSON.
func TestDecodeOfEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := chunktest.Chunks().Draw(t, "chunk")
		format := rapid.SampledFrom([]Format{FormatJSON, FormatMsgpack}).Draw(t, "format")
		epoch := chunk.Epoch(rapid.Uint64Min(1).Draw(t, "epoch"))
		ordinal := chunk.Ordinal(rapid.Uint64Min(1).Draw(t, "ordinal"))
		text, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Encode(Envelope{Session: session, Epoch: epoch, Ordinal: ordinal, Format: format}, c)
		if err != nil {
			t.Fatal(err)
		}
		stored := time.Unix(1, 2)
		rec, err := Decode(Stored{Session: session, Seq: 5, At: stored, Header: m.Header, Data: m.Data})
		if err != nil {
			t.Fatal(err)
		}
		want := chunk.Record{Seq: 5, Session: session, Epoch: epoch, Ordinal: ordinal, Type: c.Type(), StoredAt: stored, Data: rec.Data}
		if !reflect.DeepEqual(rec, want) {
			t.Fatalf("got %+v\nwant %+v", rec, want)
		}
		if m.Header["ce-datacontenttype"][0] == "application/json" && !bytes.Equal(rec.Data, text) {
			t.Fatalf("the bytes changed: %s\n%s", rec.Data, text)
		}
		if tokensOf(t, rec.Data) != tokensOf(t, text) {
			t.Fatalf("the value changed: %s\n%s", rec.Data, text)
		}
		if back, err := rec.Decode(); err != nil || back.Type() != c.Type() {
			t.Fatalf("%+v, %v", back, err)
		}
	})
}

// A value that msgpack cannot represent exactly is sent as JSON, whatever format is configured.
func TestMsgpackFallsBack(t *testing.T) {
	for name, value := range map[string]string{
		"huge integer":     `123456789012345678901234567890`,
		"beyond a double":  `{"a":1e400}`,
		"more digits":      `[0.1234567890123456789]`,
		"digits kept":      `1.0`,
		"a lone surrogate": `"\ud83d"`,
	} {
		c := chunk.Chunk{AgentID: "s1", Body: chunk.Output{Output: chunk.Value(value)}}
		m, err := Encode(Envelope{Session: session, Epoch: 1, Ordinal: 1, Format: FormatMsgpack}, c)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Header["ce-datacontenttype"]; len(got) != 1 || got[0] != "application/json" {
			t.Errorf("%s: ce-datacontenttype %q", name, got)
		}
		rec, err := Decode(Stored{Session: session, Seq: 1, Header: m.Header, Data: m.Data})
		if err != nil || !strings.Contains(string(rec.Data), `"output":`+value+`}`) {
			t.Errorf("%s: %s, %v", name, rec.Data, err)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	good := chunk.Chunk{AgentID: "s1", Body: chunk.TextDelta{Delta: "x"}}
	_, err := Encode(Envelope{Session: session, Epoch: 1, Ordinal: 1, Format: Format(2)}, good)
	if err == nil || !strings.Contains(err.Error(), "format 2") || Format(2).String() != "Format(2)" {
		t.Errorf("unknown format: %v", err)
	}
	bad := good
	bad.AgentID = ""
	if _, err := Encode(Envelope{Session: session, Epoch: 1, Ordinal: 1}, bad); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("invalid chunk: %v", err)
	}
}

// EncodeJSON does not check the chunk, but a type cannot add a header.
func TestNoSecondHeaderThroughAType(t *testing.T) {
	m := EncodeJSON(Envelope{Session: session, Epoch: 1, Ordinal: 1}, Header{Type: "a\r\nNats-Rollup: all", Timestamp: -1}, nil)
	if got := m.Header["ce-type"][0]; got != "a%0D%0ANats-Rollup:%20all" {
		t.Errorf("ce-type %q", got)
	}
	if got, ok := m.Header["ce-time"]; ok {
		t.Errorf("a time before 1970 became %q", got)
	}
}

func TestHeaderTextUndoesHeaderValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		if !isVisible(s) && headerText(headerValue(s)) != s || headerText(percentEncode(s)) != s {
			t.Fatalf("%q became %q and %q", s, headerValue(s), headerText(headerValue(s)))
		}
		if !isVisible(headerValue(s)) {
			t.Fatalf("%q is no header", headerValue(s))
		}
	})
	for in, want := range map[string]string{
		`"a\"b"`: `a"b`, `"a\\b"`: `a\b`, `"open`: `"open`, `"a"b`: `"a"b`, `"`: `"`, `""`: ``, `"a\`: `"a\`,
		`%`: `%`, `%2`: `%2`, `%zz`: `%zz`, `%+1`: `%+1`, `%41%`: `A%`, `%c3%A9`: `é`,
	} {
		if got := headerText(in); got != want {
			t.Errorf("headerText(%q) = %q, want %q", in, got, want)
		}
	}
}

// The fast path writes the source and id that package chunk defines.
func TestNamesAreThoseOfChunk(t *testing.T) {
	if got := string(appendSource(nil, session)); got != session.String() {
		t.Errorf("source %q, want %q", got, session)
	}
	rapid.Check(t, func(t *rapid.T) {
		e, o := chunk.Epoch(rapid.Uint64().Draw(t, "epoch")), chunk.Ordinal(rapid.Uint64().Draw(t, "ordinal"))
		if got := string(appendEventID(nil, e, o)); got != chunk.EventID(e, o) {
			t.Fatalf("id %q, want %q", got, chunk.EventID(e, o))
		}
	})
}

func textOf(size int) []byte {
	return []byte(strings.Replace(body, "Hello, wörld", strings.Repeat("Hello, wörld ", size/14+1)[:size/14*14], 1))
}

func BenchmarkEncode(b *testing.B) {
	c, err := chunk.Decode([]byte(body))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("headers of a JSON body", func(b *testing.B) {
		b.ReportAllocs()
		data := []byte(body)
		for b.Loop() {
			EncodeJSON(Envelope{Session: session, Epoch: 3, Ordinal: 17}, Header{Type: chunk.TypeTextDelta, Timestamp: 1700000000123}, data)
		}
	})
	b.Run("the same by the SDK", func(b *testing.B) {
		b.ReportAllocs()
		ev := newEvent(c, 3, 17, []byte(body))
		for b.Loop() {
			var data bytes.Buffer
			if _, err := cejs.WriteMsg(b.Context(), binding.ToMessage(ev), &data); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, format := range []Format{FormatJSON, FormatMsgpack} {
		b.Run("a chunk to "+format.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Encode(Envelope{Session: session, Epoch: 3, Ordinal: 17, Format: format}, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{14, 512, 4096} {
		text := textOf(size)
		packed, ok := toMsgpack(text)
		if !ok {
			b.Fatal("not packed")
		}
		for format, data := range map[Format][]byte{FormatJSON: text, FormatMsgpack: packed} {
			header := EncodeJSON(Envelope{Session: session, Epoch: 3, Ordinal: 17}, Header{Type: chunk.TypeTextDelta, Timestamp: 1700000000123}, nil).Header
			header["ce-datacontenttype"][0] = format.String()
			b.Run(fmt.Sprintf("text=%d/%s", size, format), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					if _, err := Decode(Stored{Session: session, Seq: 5, Header: header, Data: data}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
