package fold

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// FuzzParseHead checks that any stored head is rejected, or is a snapshot that can be written, read, shown and folded.
func FuzzParseHead(f *testing.F) {
	s := newSnapshot(session)
	for i, body := range []chunk.Body{
		chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "q\xed\xa0\x80"}}},
		chunk.TextDelta{Delta: "a"},
		chunk.ToolApprovalRequest{ToolCallID: "c", ToolName: "t", ApprovalID: "a", Input: chunk.Value(`{}`)},
		chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k", CallID: "c"},
		chunk.StepEnd{}, chunk.StreamFailed{Error: "e"},
	} {
		var err error
		if s, err = applyRecord(s, record(f, i+1, body)); err != nil {
			f.Fatal(err)
		}
		f.Add(s.AppendHead(nil))
	}
	f.Add([]byte(`{"version":1,"finished":9223372036854775807,"chain":"00"}`))
	f.Add([]byte(`{"version":1,"open":[{"parts":[{"type":"dynamic-tool"},{"type":"text","state":"streaming"}]}],"gone":[[1]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseHead(data)
		if err != nil {
			return
		}
		first := s.AppendHead(nil)
		again, err := ParseHead(first)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		if second := again.AppendHead(nil); !bytes.Equal(first, second) {
			t.Fatalf("not the same twice:\n%s\n%s", first, second)
		}
		_ = BrowserForm(s, false, 0).JSON
		for i, body := range []chunk.Body{chunk.TextDelta{Delta: "x"}, chunk.ToolEnd{ToolCallID: "c", ToolName: "t", Result: chunk.Value("1")}, chunk.StreamPaused{}, chunk.RunStarted{RunID: "n", Epoch: 1, Mode: "execute"}} {
			rec := record(t, i+1, body)
			rec.Session, rec.Epoch = s.Session, s.Epoch
			rec.Ordinal, rec.Seq = s.Position.Ordinal+1, s.Position.Seq+1
			if next, err := applyRecord(s, rec); err == nil {
				s = next
			}
		}
	})
}

// FuzzString checks that every string survives writing and reading, including lone surrogates.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a\"\\\n\x00\x1f\x7f", "é\u2028😀", "\xed\xa0\x80", "\xed\xb0\x80\xed\xa0\x80", "\xed\xa0\xbd\xed\xb8\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := rawjson.AppendQuoted(nil, s)
		back, err := unquote(raw)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		// Reading joins the halves of a pair that was not joined: both forms are the same character.
		want := string(join(nil, s))
		for i := 0; i+6 <= len(want); i++ {
			if endsHigh([]byte(want[:i+3])) && startsLow(want[i+3:]) && want[i] == 0xED {
				want = want[:i] + chunk.Concat(want[i:i+3], want[i+3:])
			}
		}
		if back != want {
			t.Fatalf("%q came back as %q", s, back)
		}
		if utf8.ValidString(s) && !utf8.Valid(raw) {
			t.Fatalf("%q is no UTF-8", raw)
		}
	})
}
