package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// deletionStates are what the log and the snapshots have of a deleted session, by the name of the session.
var deletionStates = map[string]struct{ record, tombstone bool }{
	"tombstone-and-record": {true, true},  // until 48 hours after the deletion
	"only-a-record":        {true, false}, // the snapshots were lost, and a process may have died before it wrote the tombstone
	"only-a-tombstone":     {false, true}, // afterwards
	"neither":              {false, false},
}

// For all requests and commands a session of which the log has only the deletion record is a deleted one, with and without its tombstone, and as later: each has
// the answer of a session that never existed. A sweep removes and adds nothing. The id can be used again at once, and has nothing of the deleted session.
func TestDeletionRecordInTheLog(t *testing.T) {
	h := newEnv(t)
	last := map[string]chunk.Seq{}
	for name, state := range deletionStates {
		last[name] = h.deleted(name, state.record, state.tombstone)
	}
	paths := []string{
		"events", "events?scope=session", "events?after=0", "events?after=1", "events?dialect=aisdk", "events?dialect=agui", "snapshot", "snapshot?partial=1", "snapshot?at=1", "snapshot?at=SEQ",
		"snapshot?checkpoint=cp", "snapshot?dialect=agui", "snapshot?dialect=mastra", "snapshot?messages=5", "messages", "tree", "values/1-tool_end-result-00",
	}
	for _, path := range paths {
		_, _, want := h.ask(http.MethodGet, "/v1/sessions/never-existed/"+strings.ReplaceAll(path, "SEQ", "1"), nil)
		for name := range deletionStates {
			of := strings.ReplaceAll(path, "SEQ", fmt.Sprint(last[name]))
			if status, _, got := h.ask(http.MethodGet, "/v1/sessions/"+name+"/"+of, nil); status != http.StatusNotFound || strings.ReplaceAll(got, name, "never-existed") != want {
				t.Errorf("%s of %s: %d %s, want %s", of, name, status, got, want)
			}
		}
	}
	if list := h.get("/v1/sessions"); strings.Contains(list, "tombstone") || strings.Contains(list, "record") {
		t.Errorf("the list has a deleted session: %s", list)
	}
	h.operate()
	h.sweepsKeep()
	// The deletion without a tombstone may have been interrupted: the next one completes it.
	h.want(http.StatusNoContent, http.MethodDelete, "/v1/sessions/only-a-record", nil)
	for name := range deletionStates {
		h.want(http.StatusNotFound, http.MethodDelete, "/v1/sessions/"+name, nil)
		h.want(http.StatusNotFound, http.MethodGet, "/v1/sessions/kid/snapshot?root="+name, nil)
	}
	for name := range deletionStates {
		h.startAgain(name, last[name])
	}
	h.operate()
	h.sweeps()
	for name := range deletionStates {
		h.get("/v1/sessions/"+name+"/snapshot", "new text", "again", `"status":"ended"`)
	}
}

// deleted writes and deletes a session with a sub-agent, and returns the sequence of its deletion record.
func (h *env) deleted(name string, record, tombstone bool) chunk.Seq {
	h.t.Helper()
	s := chunk.RootSession("default", name)
	run := h.start(name, "canary")
	h.emit(run, chunk.TextDelta{Delta: "canary"})
	child, err := run.Child(h.t.Context(), chunk.SubagentStart{SubAgentType: "helper", SubSessionID: "kid", CallID: "c1"}, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		h.t.Fatal(err)
	}
	h.emit(child, chunk.TextDelta{Delta: "canary"})
	h.awaitSaved(s)
	h.awaitSaved(s.Child("kid"))
	h.want(http.StatusNoContent, http.MethodDelete, "/v1/sessions/"+name, nil)
	rec, err := h.Log.Last(h.t.Context(), s)
	if err != nil || !rec.IsDeletion() {
		h.t.Fatalf("%s ends with %s, %v", name, rec.Type, err)
	}
	for stream, gone := range map[string]bool{"TR_CHUNKS_0": !record, "KV_TR_SNAPSHOTS": !tombstone} {
		if !gone {
			continue
		}
		in, err := h.Server.JetStream(h.t).Stream(h.t.Context(), stream)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, subject := range []string{"tr.chunks.0.default." + name + ".>", "$KV.TR_SNAPSHOTS.h.default." + name + ".>"} {
			if err := in.Purge(h.t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	return rec.Seq
}

func (h *env) awaitSaved(s chunk.Session) {
	h.t.Helper()
	natstest.Eventually(h.t, "the projector", func(ctx context.Context) error {
		last, err := h.Log.Last(ctx, s)
		if err != nil {
			return err
		}
		if pos, _, _, err := h.Reader.StoredPosition(ctx, s); err != nil || pos != last.Position() {
			return fmt.Errorf("head at %v of %v, %w", pos, last.Position(), err)
		}
		return nil
	})
}

// operate checks that the commands of an operator find no fault.
func (h *env) operate() {
	h.t.Helper()
	flags := []string{"--nats-url", h.Server.URL, "--nats-nkey", h.Users.Seed(natsauth.Operator)}
	for _, args := range [][]string{{"verify", "--all"}, {"doctor"}} {
		if code, out, errs := runCommand(h.t, "", append(args, flags...)...); code != exitOK || strings.Contains(out, "different") || strings.Contains(out, "unreadable") {
			h.t.Errorf("%s: exit code %d: %s %s", args, code, out, errs)
		}
	}
}

// sweeps runs the sweeps that the projectors run in the 48 hours.
func (h *env) sweeps() {
	h.t.Helper()
	js := h.NewProcess(natsauth.Projector).JS
	store, err := jssnapshots.New(js, jssnapshots.Config{})
	if err != nil {
		h.t.Fatal(err)
	}
	eraser, err := retention.NewEraser(js, store, retention.EraserConfig{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, age := range []time.Duration{3 * time.Minute, 61 * time.Minute, 47 * time.Hour} {
		if _, err := eraser.SweepAt(h.t.Context(), time.Now().Add(age)); err != nil {
			h.t.Errorf("sweep after %s: %v", age, err)
		}
	}
}

// sweepsKeep sweeps and checks that the log keeps the deletion records, and that the tombstones stay with a TTL.
func (h *env) sweepsKeep() {
	h.t.Helper()
	h.sweeps()
	api := jsclient.New(h.Server.JetStream(h.t))
	for name, want := range deletionStates {
		s := name + "." + name
		record, err := api.Last(h.t.Context(), "TR_CHUNKS_0", "tr.chunks.0.default."+s)
		if has := err == nil; has != want.record || has && record.Header.Get(jetstream.MsgTTLHeader) != "48h0m0s" {
			h.t.Errorf("%s: deletion record with the TTL %q, %v", name, record.Header.Get(jetstream.MsgTTLHeader), err)
		}
		tombstone, err := api.Last(h.t.Context(), "KV_TR_SNAPSHOTS", "$KV.TR_SNAPSHOTS.h.default."+s)
		if has := err == nil; has != want.tombstone || has && tombstone.Header.Get(jetstream.MsgTTLHeader) != "72h0m0s" {
			h.t.Errorf("%s: tombstone with the TTL %q, %v", name, tombstone.Header.Get(jetstream.MsgTTLHeader), err)
		}
	}
}

// startAgain starts a session with the id of a deleted one.
func (h *env) startAgain(name string, deletion chunk.Seq) {
	h.t.Helper()
	run := h.start(name, "again")
	h.emit(run, chunk.TextDelta{Delta: "new text"})
	h.end(run)
	h.awaitSaved(chunk.RootSession("default", name))
	for _, path := range []string{"snapshot", "messages", "tree", "events?after=0"} {
		if got := h.get("/v1/sessions/" + name + "/" + path); strings.Contains(got, "canary") || strings.Contains(got, chunk.CodeSessionDeleted) {
			h.t.Errorf("%s of %s that started again: %s", path, name, got)
		}
	}
	h.get("/v1/sessions/"+name+"/snapshot", "new text", "again", `"status":"ended"`)
	if status, _, body := h.ask(http.MethodGet, fmt.Sprintf("/v1/sessions/%s/snapshot?at=%d", name, deletion), nil); status != http.StatusNotFound && status != http.StatusGone {
		h.t.Errorf("the state of %s at its deletion: %d %s", name, status, body)
	}
	if snap, err := h.Reader.Snapshot(h.t.Context(), chunk.RootSession("default", name)); err != nil || snap.Faults.Skipped+snap.Faults.Lost > 0 {
		h.t.Errorf("%s: %+v, %v", name, snap.Faults, errors.Join(err))
	}
}
