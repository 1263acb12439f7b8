package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/topology"
)

// The data directory is copied, more is written, and the copy is put back: the whole directory, or only the log, because streams lose their latest writes
// independently of each other. The log then assigns the same sequences, ordinals and epochs to other records. Clients that have lost records get truncated, and
// the snapshot is that of the new records: of a projector that ran all the time, and of one that starts after the rollback.
func TestDataDirectoryRestored(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		logOnly, stays bool
		again          int
	}{
		"all, the projector stays":                 {false, true, 4},
		"all, the projector starts later":          {false, false, 4},
		"the log, the projector stays":             {true, true, 4},
		"the log, the projector starts later":      {true, false, 4},
		"the log, longer now, the projector stays": {true, true, 9},
		"the log, longer now":                      {true, false, 9},
		"the log, shorter now":                     {true, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, older := t.TempDir(), t.TempDir()
			srv := natstest.Start(t, natstest.StoreDir(dir))
			w := newEnvOn(t, func() *nats.Conn { return natstest.Connect(t, srv.URL) }, topology.Config{})
			draft := storetest.NewLog()
			say := func(text string, n int) (out []chunk.Record) {
				for range n {
					out = append(out, draft.Append(t, s1, 1, chunk.TextDelta{Delta: text}))
				}
				w.copy(out)
				return out
			}
			p := w.project(SourceConfig{})
			w.copy([]chunk.Record{draft.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})})
			kept := say("kept ", 4)
			w.caughtUp(s1)
			w.allAcknowledged()
			srv.Shutdown()
			copyDir(t, older, dir)
			srv.Restart(t)
			w.awaitServer()

			say("lost ", 4)
			w.caughtUp(s1)
			w.allAcknowledged()
			var lost []chunk.Cursor
			for rec, err := range w.log.Replay(t.Context(), chunk.Range{Session: s1}) {
				if err != nil {
					t.Fatal(err)
				}
				lost = append(lost, rec.Cursor())
			}
			valid := lost[:1+len(kept)]
			lost = lost[1+len(kept):]
			if !tt.stays {
				p.stop()
			}
			srv.Shutdown()
			putBack(t, dir, older, tt.logOnly)
			srv.Restart(t)
			w.awaitServer()

			draft.RollBack(kept[len(kept)-1].Seq)
			say("new ", tt.again)
			if !tt.stays {
				w.project(SourceConfig{})
			}
			for _, c := range valid {
				if _, err := w.log.CheckCursor(t.Context(), s1, chunk.ScopeTree, c); err != nil {
					t.Errorf("cursor %s of a record that stayed: %v", c, err)
				}
			}
			for _, c := range lost {
				_, err := w.log.CheckCursor(t.Context(), s1, chunk.ScopeTree, c)
				if truncated, ok := errors.AsType[*chunk.TruncatedError](err); !ok || truncated.Reason != chunk.TruncatedRecreated {
					t.Errorf("cursor %s of a lost record: %v, want %s", c, err, chunk.TruncatedRecreated)
				}
			}
			snap, err := w.reader.Snapshot(t.Context(), s1)
			if err != nil {
				t.Fatal(err)
			}
			storetest.Equal(t, "read", snap, storetest.Fold(t, w.log, s1))
			natstest.Eventually(t, "the snapshot of the new records", func(ctx context.Context) error {
				v, err := projector.VerifySnapshot(ctx, w.store, w.log, s1)
				if last, lastErr := w.log.Last(ctx, s1); err == nil && (lastErr != nil || v.Finding != projector.Same || v.At != last.Position()) {
					err = fmt.Errorf("%s at %+v, the log is at %+v: %s %v", v.Finding, v.At, last.Position(), v.Reason, v.Differences)
				}
				return err
			})
			say("more ", 1)
			w.caughtUp(s1)
		})
	}
}

// awaitServer waits until the connection of the test has the server again.
func (w *env) awaitServer() {
	w.tb.Helper()
	natstest.Eventually(w.tb, "the server", func(ctx context.Context) error {
		_, err := w.js.Stream(ctx, stream)
		return err
	})
}

func copyDir(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// putBack replaces the files of a server, or only those of the log.
func putBack(t *testing.T, dir, older string, logOnly bool) {
	t.Helper()
	path := "."
	if logOnly {
		err := filepath.WalkDir(older, func(at string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && strings.HasSuffix(at, string(filepath.Separator)+stream) {
				path, err = filepath.Rel(older, at)
			}
			return err
		})
		if err != nil || path == "." {
			t.Fatalf("no files of %s: %v", stream, err)
		}
	}
	at := filepath.Join(dir, path)
	if err := errors.Join(os.RemoveAll(at), os.MkdirAll(at, 0o755)); err != nil {
		t.Fatal(err)
	}
	copyDir(t, at, filepath.Join(older, path))
}
