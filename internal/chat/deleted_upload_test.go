package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// uploads is an edge whose store of values calls functions around each write, and a process that deletes.
type uploads struct {
	*env
	conversation.Values

	edge          *edge
	before, after func() error
	eraser        *retention.Eraser
	begun, let    chan struct{} // see answer
}

func (u *uploads) Put(ctx context.Context, s chunk.Session, k values.Key, mediaType string, data []byte) error {
	return errors.Join(u.before(), u.Values.Put(ctx, s, k, mediaType, data), u.after())
}

func newUploads(t *testing.T) *uploads {
	t.Helper()
	none := func() error { return nil }
	u := &uploads{env: newEnv(t), before: none, after: none, begun: make(chan struct{}), let: make(chan struct{})}
	u.edge = u.newEdge(func(c *edgeConfig) { u.Values, c.ports.Values = c.ports.Values, u })
	p := u.NewProcess(natsauth.Projector)
	store := must(jssnapshots.New(p.JS, jssnapshots.Config{}))(t)
	source := must(jssnapshots.NewSource(p.JS, jssnapshots.SourceConfig{}))(t)
	runner := must(projector.NewRunner(source, store, must(consumers.New(p.JS, consumers.Config{}))(t), projector.Config{SaveAfter: 10 * time.Millisecond}))(t)
	p.Go(func(ctx context.Context) error {
		if err := runner.Run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	u.eraser = must(retention.NewEraser(u.NewProcess(natsauth.Projector).JS, store, retention.EraserConfig{}))(t)
	return u
}

// answer runs an agent that says how large the files of a turn are. The test lets it answer the text "Wait.".
func (u *uploads) answer() {
	u.t.Helper()
	u.agents(map[string]workers.Agent{agentType: workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			s.MarkFinal()
			got := "files"
			for _, m := range t.Input() {
				if m.Content == "Wait." {
					u.begun <- struct{}{}
					select {
					case <-u.let:
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				for _, f := range m.Files {
					got += fmt.Sprint(" ", len(f.URL))
				}
			}
			return s.Text(ctx, got)
		})
	})})
}

var uploaded = chunk.RootSession("acme", "s1")

func (u *uploads) delete() error { return u.eraser.Delete(u.t.Context(), uploaded) }

func (u *uploads) awaitNoCommand() {
	u.t.Helper()
	natstest.Eventually(u.t, "no command", func(ctx context.Context) error {
		_, _, err := u.Queue.Pending(ctx, uploaded, agentType)
		if errors.Is(err, control.ErrNoCommand) {
			return nil
		}
		return cmp.Or(err, errors.New("there is one"))
	})
}

// awaitSaved waits for the end of the current run and for the projector.
func (u *uploads) awaitSaved() {
	u.t.Helper()
	u.AwaitStatus(uploaded, fold.Ended)
	natstest.Eventually(u.t, "the projector", func(ctx context.Context) error {
		snap, err := u.Reader.Snapshot(ctx, uploaded)
		if err != nil {
			return err
		}
		if pos, _, _, err := u.Reader.StoredPosition(ctx, uploaded); err != nil || pos != snap.Position {
			return fmt.Errorf("head at %v of %v, %w", pos, snap.Position, err)
		}
		return nil
	})
}

// sweep sweeps at a time from now, and returns the number of pieces of values that are left.
func (u *uploads) sweep(in time.Duration) int {
	u.t.Helper()
	if _, err := u.eraser.SweepAt(u.t.Context(), time.Now().Add(in)); err != nil {
		u.t.Error(err)
	}
	return must(jsclient.New(u.JS).CountSubjects(u.t.Context(), "OBJ_TR_OBJECTS", "$O.TR_OBJECTS.C.v.>"))(u.t)
}

func upload(id, picture string) string {
	return `{"id":"` + id + `","role":"user","parts":[{"type":"file","mediaType":"image/png","url":"` + picture + `"}]}`
}

// A session is deleted while an edge stores the file of a user, before or after that. The edge dies, and a sweep an hour later leaves no byte of the file; or it requests
// the run, with which the session starts again, and the agent gets the file, which stays.
func TestDeletionWhileAFileIsStored(t *testing.T) {
	for _, first := range []bool{true, false} {
		for _, dies := range []bool{true, false} {
			t.Run(fmt.Sprintf("deleted first %t, edge dies %t", first, dies), func(t *testing.T) {
				u := newUploads(t)
				u.answer()
				u.answer()
				if got := u.edge.post("", chatBody("", user("u1", "Hello"))); !strings.Contains(got, "text-delta(files)") {
					t.Fatal(got)
				}
				u.awaitNoCommand() // which would be fenced by one more record
				deletes, died := u.delete, error(nil)
				if dies {
					died = errors.New("the edge died")
				}
				u.after = func() error { return died }
				if first {
					u.before = deletes
				} else {
					u.after = func() error { return errors.Join(deletes(), died) }
				}
				picture := values.MakeDataURL("image/png", []byte(strings.Repeat("secret", 150<<10)))
				resp, err := u.edge.try(http.MethodPost, "", chatBody("", upload("u2", picture)), nil)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close() // the deletion ends the stream
				if (resp.StatusCode == http.StatusOK) == dies {
					t.Errorf("status %d", resp.StatusCode)
				}
				want := 0
				if !dies {
					want = 2
					u.awaitSaved()
					u.awaitNoCommand()
					if got := u.Snapshot(uploaded).Messages(0); len(got) != 2 || got[1].Text() != fmt.Sprint("files ", len(picture)) {
						t.Errorf("answer %+v, want that the agent got the file", got)
					}
				}
				if left := u.sweep(time.Hour); left != want {
					t.Errorf("%d pieces of the file are left, want %d", left, want)
				}
			})
		}
	}
}

// The file of a message with which a deleted session starts again stays: sweeps remove what was written before.
func TestFileOfARestartedSession(t *testing.T) {
	u := newUploads(t)
	u.answer()
	picture := values.MakeDataURL("image/png", []byte(strings.Repeat("pixel", 180<<10)))
	for round := range 2 {
		if got := u.edge.post("", chatBody("", upload(fmt.Sprint("u", round), picture))); !strings.Contains(got, fmt.Sprintf("text-delta(files %d)", len(picture))) {
			t.Fatalf("%.500s", got)
		}
		u.awaitSaved()
		u.awaitNoCommand()
		if left := u.sweep(5 * time.Minute); left != 4 {
			t.Errorf("round %d: %d pieces, want the two of the file and those of its upload, which a stalled process may need", round, left)
		}
		if left := u.sweep(2 * time.Hour); left != 2 {
			t.Errorf("round %d: %d pieces after two hours, want the two of the file", round, left)
		}
		if round == 0 {
			if err := u.delete(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
