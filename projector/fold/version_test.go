package fold

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tailrace/tailrace/chunk"
)

// TestEarlierVersionsAreRead loads snapshots that earlier versions stored. The files never change: the loaded snapshots show the
// page that the version showed, and can be folded further. A session whose log has expired depends on that.
func TestEarlierVersionsAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/version[13]/*.txtar")
	if err != nil || len(files) != 41 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var page, partial, head []byte
			var messages [][]byte
			for _, f := range archive.Files {
				switch {
				case f.Name == "page.json":
					page = f.Data
				case f.Name == "partial.json":
					partial = f.Data
				case f.Name == "head.json":
					head = compact(t, f.Data)
				case strings.HasPrefix(f.Name, "message-"):
					messages = append(messages, bytes.TrimSuffix(f.Data, []byte("\n")))
				}
			}
			s, err := ParseHead(head)
			if err != nil {
				t.Fatal(err)
			}
			if s, err = s.attachFinished(messages); err != nil {
				t.Fatal(err)
			}
			contains(t, "page", BrowserForm(s, false, 0).JSON, page)
			contains(t, "partial", BrowserForm(s, true, 0).JSON, partial)
			if strings.Contains(file, "version1") && s.Chain().FirstOrdinal != s.Position.Ordinal+1 {
				t.Errorf("the chain begins at %d, want after %d", s.Chain().FirstOrdinal, s.Position.Ordinal)
			}
			equal(t, "saved and loaded", reload(t, s), s)
			foldFurther(t, s)
		})
	}
}

// foldFurther folds another turn and checks that it is there.
func foldFurther(t *testing.T, s Snapshot) {
	t.Helper()
	for _, body := range []chunk.Body{
		chunk.RunStarted{RunID: "next", Epoch: int64(s.Epoch) + 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "and now?"}}},
		chunk.TextDelta{Delta: "this"}, chunk.StreamEnd{StreamID: s.Session.ID},
	} {
		rec := record(t, int(s.Position.Ordinal)+1, body)
		rec.Session, rec.Epoch, rec.Seq = s.Session, s.Epoch+1, s.Position.Seq+1
		if body.Type() != chunk.TypeRunStarted {
			rec.Epoch = s.Epoch
		}
		var err error
		if s, err = applyRecord(s, rec); err != nil {
			t.Fatal(err)
		}
	}
	messages := BrowserForm(s, false, 0).Messages
	if last := messages[len(messages)-1]; s.Run.Status != RunEnded || len(last.Parts) != 1 || !bytes.Contains(last.Parts[0], []byte(`"this"`)) {
		t.Errorf("folded to %s", stored(s))
	}
}

// contains checks that got has the members of an old page.
func contains(t *testing.T, what string, got, old []byte) {
	t.Helper()
	var g, o map[string]any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(old, &o); err != nil || len(o) < 8 {
		t.Fatalf("%d members, %v", len(o), err)
	}
	for name, want := range o {
		if !reflect.DeepEqual(g[name], want) {
			t.Errorf("%s: %s is %v, was %v", what, name, g[name], want)
		}
	}
}

func compact(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestHeadWithoutAnchors compares a head of a build that stored no anchors with a fold of the same records.
func TestHeadWithoutAnchors(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/transcripts/plain.txtar")
	if err != nil {
		archive, err = txtar.ParseFile("testdata/plain.txtar")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name != "head.json" {
			continue
		}
		now, err := ParseHead(compact(t, f.Data))
		if err != nil || now.Anchor == 0 {
			t.Fatalf("anchor %d, %v", now.Anchor, err)
		}
		head := regexp.MustCompile(`"anchor":\d+,`).ReplaceAll(now.AppendHead(nil), nil)
		old, err := ParseHead(head)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(old.AppendHead(nil), head) {
			t.Error("an anchor was added to a head without one")
		}
		if d := Compare(old, now); len(d) > 0 {
			t.Errorf("differences %+v", d)
		}
		other := now
		other.Anchor++
		if len(Compare(other, now)) == 0 {
			t.Error("another anchor is no difference")
		}
		return
	}
	t.Error("no head")
}
