package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openapitest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
)

// documentedStreams returns the streams that docs/guides/backup.md backs up, in its order.
func documentedStreams(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), `STREAMS="`)
	list, _, found := strings.Cut(rest, `"`)
	if !found {
		t.Fatal("docs/guides/backup.md has no list of streams")
	}
	return strings.Fields(list)
}

// site is an edge and a projector with a server.
type site struct {
	*env

	nats string // URL of the server
}

func newSite(t *testing.T, server stack.Server, cfg topology.Config, url string) *site {
	t.Helper()
	h := &site{env: &env{Stack: stack.Start(t, stack.Options{On: server, Topology: cfg}), t: t, doc: openapitest.Load(t)}, nats: url}
	replicas := fmt.Sprint(max(1, cfg.Replicas))
	h.running = startEdge(t, "--nats-url", url, "--replicas", replicas)
	startSaving(t, "--nats-url", url, "--replicas", replicas)
	awaitStart(t, h.ops)
	h.producer = h.NewWriter(producers.Config{Pace: producers.Off})
	return h
}

// startSaving starts a projector that saves each record soon.
func startSaving(t *testing.T, args ...string) {
	t.Helper()
	cfg, _, err := load(args, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := connect(natsauth.Projector, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b.SaveAfter = 10 * time.Millisecond
	b.withProjector()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.withStreams(ctx, b.project) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		b.close()
	})
}

// saved waits until the projector has saved a session and acknowledged all of the log.
func (h *site) saved(session string, seq chunk.Seq) {
	h.t.Helper()
	natstest.Eventually(h.t, "the snapshot of "+session, func(ctx context.Context) error {
		pos, _, _, err := h.Reader.StoredPosition(ctx, chunk.RootSession("default", session))
		if err != nil || pos.Seq != seq {
			return fmt.Errorf("stored up to %d, want %d: %w", pos.Seq, seq, err)
		}
		c, err := h.JS.Consumer(ctx, "TR_CHUNKS_0", "projector")
		if err == nil && c.CachedInfo().AckFloor.Stream < uint64(seq) {
			err = fmt.Errorf("acknowledged up to %d", c.CachedInfo().AckFloor.Stream)
		}
		return err
	})
}

// epochs returns the epoch of each stream according to `tailrace epoch`.
func (h *site) epochs(args ...string) map[string]string {
	h.t.Helper()
	return epochsOf(h.t, h.nats, args...)
}

func epochsOf(t *testing.T, url string, args ...string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for line := range strings.Lines(tailrace(t, exitOK, append([]string{"epoch", "--nats-url", url}, args...)...)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] != "STREAM" {
			all[words[0]] = words[1]
		}
	}
	return all
}

func text(delta string) chunk.Body { return chunk.TextDelta{Delta: delta} }

// A backup is made as docs/guides/backup.md describes, while the system runs and between writes, and is restored on another server. Clients whose position is not in
// the restored log, or that name the old epoch, get truncated; others continue. The projector saves the sessions of the restored log, also where the restored
// snapshots are older or newer than the log, and a worker carries out the restored command.
func TestBackupRestoredElsewhere(t *testing.T) {
	t.Parallel()
	documented := documentedStreams(t)
	streams, err := topology.Streams(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range streams {
		if !slices.Contains(documented, stream.Name) {
			t.Errorf("docs/guides/backup.md does not back up %s", stream.Name)
		}
	}
	reversed := slices.Clone(documented)
	slices.Reverse(reversed)
	const opposite = "in the opposite order"
	for name, order := range map[string][]string{"in the documented order": documented, opposite: reversed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := natstest.Start(t)
			old := newSite(t, first, topology.Config{}, first.URL)
			epochs := old.epochs()
			backup, lost := old.backUpWhileWriting(order)

			server := natstest.Start(t)
			js := server.JetStream(t)
			for _, b := range backup {
				b.Restore(t, js)
			}
			if restored := epochsOf(t, server.URL); fmt.Sprint(restored) != fmt.Sprint(epochs) {
				t.Errorf("epochs after the restore: %v, want %v", restored, epochs)
			}
			renewed := epochsOf(t, server.URL, "--new", "all")
			for stream, epoch := range epochs {
				if now := renewed[stream]; now == "" || now == epoch {
					t.Errorf("%s has the epoch %q, before %q", stream, now, epoch)
				}
			}
			now := newSite(t, server, topology.Config{}, server.URL)
			now.checkCursors(epochs["TR_CHUNKS_0"], lost)
			run := now.takeOver("kept")
			for range 30 { // the sequences of the lost records are assigned again
				now.emit(run, text("another history "))
			}
			now.checkCursors(epochs["TR_CHUNKS_0"], lost)
			now.end(run)
			startWorker(t, server, "--demo", "0")
			if answer := tailText(t, tailed(t, server, "asked")); answer == "" {
				t.Error("the restored command has no answer")
			}
			natstest.Eventually(t, "an empty queue", func(ctx context.Context) error {
				stream, err := js.Stream(ctx, "TR_COMMANDS")
				if err == nil && stream.CachedInfo().State.Msgs > 0 {
					err = errors.New("a command is left")
				}
				return err
			})
			wrong := []string{"unsaved", "unprovable"}
			if name == opposite { // the log has nothing of sessions that began between its copy and that of the snapshots
				wrong = wrong[:1]
			}
			natstest.Eventually(t, "snapshots that equal the log", func(context.Context) error {
				code, out, errs := runCommand(t, "", "verify", "--all", "--nats-url", server.URL)
				if code != exitOK || slices.ContainsFunc(wrong, func(result string) bool { return strings.Contains(out, result) }) {
					return fmt.Errorf("exit code %d: %s%s", code, out, errs)
				}
				return nil
			})
		})
	}
}

// backUpWhileWriting backs the streams up, one after another. Before each of them records are written and saved. It returns the cursors of the records that
// are not in the backup of the log.
func (h *site) backUpWhileWriting(order []string) (backup []natstest.Backup, lost []chunk.Cursor) {
	h.t.Helper()
	kept := h.start("kept", "?")
	h.saved("kept", h.emit(kept, text("kept 1 "), text("kept 2 "), text("kept 3 ")))
	hasLog := false
	for n, stream := range order {
		if stream == "TR_COMMANDS" {
			h.Request(control.Command{
				Kind: control.Execute, Session: chunk.RootSession("default", "asked"), AgentType: "demo", RunID: "r1",
				Input: []chunk.InputMessage{{Content: "?"}}, Issued: time.Now(),
			})
		}
		backup = append(backup, natstest.BackUp(h.t, h.JS, stream))
		hasLog = hasLog || stream == "TR_CHUNKS_0"
		seq := h.emit(kept, text(fmt.Sprintf("after copy %d ", n)))
		rec, err := h.Log.Last(h.t.Context(), chunk.RootSession("default", "kept"))
		if err != nil {
			h.t.Fatal(err)
		}
		if hasLog {
			lost = append(lost, rec.Cursor())
		}
		once := h.start(fmt.Sprintf("once%d", n), "?")
		h.saved("kept", seq)
		seq = h.emit(once, text("once "))
		h.saved(fmt.Sprintf("once%d", n), seq)
	}
	return backup, lost
}

// checkCursors reads the session with the cursors of clients of the old server.
func (h *site) checkCursors(oldEpoch string, lost []chunk.Cursor) {
	h.t.Helper()
	events := "/v1/sessions/kept/events"
	_, header, first := h.ask(http.MethodGet, events, nil)
	epoch := header.Get("X-Stream-Epoch")
	id := firstID(first)
	seq, _, _ := strings.Cut(id, "-")
	h.get(events+"?after="+id, `"type":"chunk"`, "kept 1")
	h.get(events+"?after="+seq+"-"+epoch, `"type":"chunk"`, "kept 1")
	h.get(events+"?after="+seq+"-"+oldEpoch, `"type":"truncated"`, `"reason":"recreated"`)
	for _, c := range lost {
		h.get(events+"?after="+c.String(), `"type":"truncated"`, `"reason":"recreated"`)
		h.get(fmt.Sprintf("%s?after=%d-%s", events, c.Seq, oldEpoch), `"type":"truncated"`, `"reason":"recreated"`)
	}
}

// takeOver continues the open run of a session, whose writer is gone.
func (h *site) takeOver(session string) *producers.Run {
	h.t.Helper()
	run, err := h.producer.Start(h.t.Context(), chunk.RootSession("default", session), chunk.RunStarted{Mode: "execute"},
		producers.AgentType("writer"), producers.TakeOver())
	if err != nil {
		h.t.Fatal(err)
	}
	return run
}
