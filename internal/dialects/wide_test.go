package dialects_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
)

// TestWideLogs reads logs with all that a log may have, also with what no correct worker writes. Each event of a response is JSON, only the last event of a record has
// an id, which is the cursor of the record, and a writer keeps no bytes of a record: the caller uses them again.
func TestWideLogs(t *testing.T) {
	for _, name := range dialects.Written() {
		if name == dialect.Native {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				log := turntest.Logs(turntest.Config{Turns: 2, SubAgents: true, Crashes: true, Reuse: true, Wide: true}).Draw(t, "log")
				hidden := rapid.SliceOfN(rapid.IntRange(0, 9), len(log), len(log)).Draw(t, "hidden")
				resumes := rapid.IntRange(0, len(log)).Draw(t, "resumes")
				of := dialects.Turn{Session: turntest.Session, MessageID: "msg-1", State: chunk.Value(`{}`)}
				of.AISDK.ClientTool = turntest.IsClientTool
				kept, reused := dialects.NewWriter(name, of), dialects.NewWriter(name, of)
				for i, rec := range log {
					if i == resumes {
						frames := kept.Resume(nil)
						checkFrames(t, frames, chunk.Cursor{})
						checkEqual(t, frames, reused.Resume(nil))
					}
					write := dialect.Writer.Append
					if hidden[i] == 0 && !rec.Type.Control() {
						write = dialect.Writer.Hide
					}
					frames := write(kept, nil, rec)
					checkFrames(t, frames, rec.Cursor())
					rec.Data = slices.Clone(rec.Data)
					again := write(reused, nil, rec)
					clear(rec.Data)
					checkEqual(t, frames, again)
				}
			})
		})
	}
}

func checkEqual(t *rapid.T, kept, reused []byte) {
	t.Helper()
	if !bytes.Equal(kept, reused) {
		t.Fatalf("with records that are kept:\n%s\nthat are used again:\n%s", kept, reused)
	}
}

// checkFrames checks the frames of a record with a cursor. The zero cursor is for frames without an id.
func checkFrames(t *rapid.T, frames []byte, at chunk.Cursor) {
	t.Helper()
	identified := false
	for event := range bytes.SplitSeq(frames, []byte("\n\n")) {
		for line := range bytes.SplitSeq(event, []byte("\n")) {
			data, isData := bytes.CutPrefix(line, []byte("data: "))
			id, isID := bytes.CutPrefix(line, []byte("id: "))
			switch {
			case len(line) == 0:
			case isData && string(data) == "[DONE]":
			case isData && json.Valid(data) && !identified:
			case isID && !identified && bytes.Equal(id, at.Append(nil)) && at != chunk.Cursor{}:
			default:
				t.Fatalf("line %q of the record %s:\n%s", line, at.Append(nil), frames)
			}
			identified = identified || isID && len(event) == len(line) // an event of its own follows the others
		}
		identified = identified || bytes.HasPrefix(event, []byte("id: "))
	}
}
