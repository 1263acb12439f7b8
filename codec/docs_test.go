package codec

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// docs/reference/log.md shows these messages, and msgpack has these bytes.
func TestDocumentMatchesTheCode(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/log.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := codeBlocks(string(page))
	session := chunk.RootSession("acme", "s1")
	c := chunk.Chunk{AgentID: "s1", AgentType: "demo", Timestamp: 1700000000123, Step: 1, Body: chunk.TextDelta{Delta: "Hello"}}
	m, err := Encode(Envelope{Session: session, Epoch: 3, Ordinal: 17}, c)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("binary", func(t *testing.T) {
		want := "NATS/1.0\n"
		for _, name := range []string{headerSpecVersion, headerID, headerSource, headerType, headerTime, headerDataType} {
			want += name + ": " + m.Header[name][0] + "\n"
		}
		want += "Nats-Expected-Last-Subject-Sequence: 4710\n\n" + string(m.Data)
		if got := blocks["text"]; !contains(got, want) {
			t.Errorf("no block shows\n%s", want)
		}
	})
	t.Run("msgpack", func(t *testing.T) {
		packed, err := Encode(Envelope{Session: session, Epoch: 3, Ordinal: 17, Format: FormatMsgpack}, c)
		if err != nil {
			t.Fatal(err)
		}
		const want = "86a474797065aa746578745f64656c7461" + "a76167656e744964a27331" + "a96167656e7454797065a464656d6f" +
			"a974696d657374616d70cf0000018bcfe5687b" + "a47374657001" + "a564656c7461a548656c6c6f"
		if got := hex.EncodeToString(packed.Data); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("structured", func(t *testing.T) {
		for _, block := range blocks["json"] {
			rec, err := Decode(Stored{Session: session, Seq: 4711, Data: []byte(block)})
			if err != nil || rec.Epoch != 3 || rec.Ordinal != 17 || tokensOf(t, rec.Data) != tokensOf(t, m.Data) {
				t.Errorf("%s\nis %+v, %v", block, rec, err)
			}
		}
		if len(blocks["json"]) != 1 {
			t.Errorf("%d blocks of JSON, want 1", len(blocks["json"]))
		}
	})
	t.Run("limits", func(t *testing.T) {
		for _, want := range []string{
			fmt.Sprintf("%d levels", chunk.MaxDepth), fmt.Sprintf("%d bytes", maxAttribute),
		} {
			if !strings.Contains(string(page), want) {
				t.Errorf("the page does not speak of %s", want)
			}
		}
	})
}

func contains(blocks []string, want string) bool {
	for _, b := range blocks {
		if strings.TrimSpace(b) == strings.TrimSpace(want) {
			return true
		}
	}
	return false
}

// codeBlocks returns the fenced blocks of a page by language.
func codeBlocks(page string) map[string][]string {
	blocks := map[string][]string{}
	for i, part := range strings.Split(page, "```") {
		if i%2 == 1 {
			language, text, _ := strings.Cut(part, "\n")
			blocks[language] = append(blocks[language], text)
		}
	}
	return blocks
}
