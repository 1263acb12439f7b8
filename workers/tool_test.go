package workers

import (
	"context"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Each record that begins a call of the browser's says whose it is, and no record
// of another call does: a page runs the one and not the other.
func TestWhoseCallItIs(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "asking", "Hello?")
	w.serve(w.worker(map[string]Agent{"asking": AgentFunc(func(ctx context.Context, t *Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *Step) error {
			ours, told, plain := s.Tool("ours", "search"), s.ClientTool("told", "location"), s.Tool("plain", "language")
			for _, call := range []*Call{ours, told} {
				if err := call.Args(ctx, "{}"); err != nil {
					return err
				}
			}
			if err := ours.Start(ctx, struct{}{}); err != nil {
				return err
			}
			if err := ours.End(ctx, "found"); err != nil {
				return err
			}
			if err := told.AskClient(ctx, struct{}{}, time.Time{}); err != nil {
				return err
			}
			return plain.AskClient(ctx, struct{}{}, time.Time{})
		})
	})}))
	w.request(c)
	w.awaitStatus(c.Session, fold.Paused)
	begun := map[string]int{}
	for _, rec := range w.records(c.Session) {
		said, err := rec.Decode()
		if err != nil {
			t.Fatal(err)
		}
		var id string
		switch b := said.Body.(type) {
		case chunk.ToolArgStreamStart:
			id = b.ToolCallID
		case chunk.ToolStart:
			id = b.ToolCallID
		default:
			continue
		}
		begun[id]++
		browser := len(said.Extra) == 1 && said.Extra[0].Name == "providerExecuted" && string(said.Extra[0].Value) == "false"
		if browser != (id != "ours") {
			t.Errorf("%s of %s: extra members %v", said.Body.Type(), id, said.Extra)
		}
	}
	if begun["ours"] != 2 || begun["told"] != 2 || begun["plain"] != 1 {
		t.Errorf("records that begin a call: %v", begun)
	}
}
