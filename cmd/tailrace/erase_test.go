package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// attached is a client that reads a stream.
type attached struct {
	path   string
	events *bufio.Reader
}

// attach opens a stream and reads its first event.
func (h *env) attach(path string) attached {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { resp.Body.Close() })
	a := attached{path, bufio.NewReader(resp.Body)}
	if event, err := firstEvent(a.events); err != nil {
		h.t.Fatalf("%s: %s, %v", path, event, err)
	}
	return a
}

// until reads up to the event that contains text.
func (h *env) until(a attached, text string) {
	h.t.Helper()
	for {
		event, err := firstEvent(a.events)
		if err != nil {
			h.t.Fatalf("%s ended before %q: %v", a.path, text, err)
		}
		if strings.Contains(event, text) {
			return
		}
	}
}

// large returns state patches that make a head larger than the maximum value.
func large(run int) []chunk.Body {
	var all []chunk.Body
	for _, key := range "abcd" {
		v := chunk.Value(`"` + strings.Repeat(fmt.Sprint(run), 240<<10) + `"`)
		all = append(all, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/" + string(key), Value: &v}}})
	}
	return all
}

// subjectsOf returns the subjects of a stream and their number of messages.
func (h *env) subjectsOf(ctx context.Context, stream string) (map[string]uint64, error) {
	s, err := h.JS.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}

// A session is deleted over HTTP while it is read in every way: each reader is
// notified, and only the deletion records remain of it, its sub-agent and its
// objects. Another session continues, also for a client that reads both.
func TestDeleteOverHTTP(t *testing.T) {
	t.Parallel()
	h := newEnv(t)
	first := h.start("deleted", "hello?")
	h.emit(first, large(1)...)
	h.end(first)
	run := h.start("deleted", "and now?")
	h.emit(run, append(large(2), chunk.TextDelta{Delta: "deleted"})...)
	child, err := run.Child(t.Context(), chunk.SubagentStart{SubAgentType: "helper", SubSessionID: "kid", CallID: "c1"}, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		t.Fatal(err)
	}
	h.emit(child, chunk.TextDelta{Delta: "I help"})
	other := h.start("other", "hello?")
	h.emit(other, chunk.TextDelta{Delta: "first"})
	natstest.Eventually(t, "all to be saved", func(ctx context.Context) error {
		objects, err := h.subjectsOf(ctx, "OBJ_TR_OBJECTS")
		if err != nil {
			return err
		}
		heads, err := h.subjectsOf(ctx, "KV_TR_SNAPSHOTS")
		if len(objects) == 0 || heads["$KV.TR_SNAPSHOTS.h.default.deleted.kid"] == 0 {
			return errors.Join(err, fmt.Errorf("%d objects, heads %v", len(objects), heads))
		}
		return err
	})

	readers := []attached{
		h.attach("/v1/sessions/deleted/events"), h.attach("/v1/sessions/deleted/events?scope=session"),
		h.attach("/v1/sessions/deleted/events"), h.attach("/v1/sessions/kid/events?root=deleted"),
	}
	both, stays := h.attach("/v1/events?session=deleted&session=other"), h.attach("/v1/sessions/other/events")
	h.want(http.StatusNoContent, http.MethodDelete, "/v1/sessions/deleted", nil)
	for _, a := range readers {
		rest, err := io.ReadAll(a.events)
		if err != nil || !strings.Contains(string(rest), `"type":"fail"`) || !strings.Contains(string(rest), "the session was deleted") {
			t.Errorf("%s: %.300s, %v; want the failure and a clean end", a.path, rest, err)
		}
	}
	h.until(both, "the session was deleted")
	h.emit(other, chunk.TextDelta{Delta: "it continues"})
	h.until(both, "it continues")
	h.until(stays, "it continues")
	if err = run.EmitBody(t.Context(), chunk.TextDelta{Delta: "late"}); err == nil {
		_, err = run.Flush(t.Context())
	}
	if !errors.Is(err, chunk.ErrFenced) {
		t.Errorf("its writer: %v, want ErrFenced", err)
	}

	natstest.Eventually(t, "all of it to be gone", func(ctx context.Context) error {
		for stream, want := range map[string]map[string]uint64{
			"OBJ_TR_OBJECTS":  {},
			"TR_CHUNKS_0":     {"tr.chunks.0.default.deleted.deleted": 1, "tr.chunks.0.default.deleted.kid": 1},
			"KV_TR_SNAPSHOTS": {"$KV.TR_SNAPSHOTS.h.default.deleted.deleted": 1, "$KV.TR_SNAPSHOTS.h.default.deleted.kid": 1},
		} {
			left, err := h.subjectsOf(ctx, stream)
			if err != nil {
				return err
			}
			maps.DeleteFunc(left, func(subject string, _ uint64) bool {
				return strings.Contains(subject, ".other.") || strings.Contains(subject, ".turn.")
			})
			if !maps.Equal(left, want) {
				return fmt.Errorf("%s has %v, want %v", stream, left, want)
			}
		}
		return nil
	})
	for _, path := range []string{"deleted/snapshot", "deleted/messages", "deleted/events", "deleted/tree", "kid/snapshot?root=deleted"} {
		h.want(http.StatusNotFound, http.MethodGet, "/v1/sessions/"+path, nil)
	}
	h.get("/v1/sessions/other/snapshot?partial=1", "it continues")
}
