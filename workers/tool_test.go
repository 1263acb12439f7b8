package workers

import (
	"context"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Each record that starts a call of the browser is marked, and no other record is: browsers run exactly the
// marked calls.
func TestProviderExecutedMember(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	w.serve(w.worker(map[string]Agent{"asking": AgentFunc(func(ctx context.Context, t *Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *Step) error {
			own, client, plain := s.Tool("own", "search"), s.ClientTool("client", "location"), s.Tool("plain", "language")
			for _, call := range []*Call{own, client} {
				if err := call.Args(ctx, "{}"); err != nil {
					return err
				}
			}
			if err := own.Start(ctx, struct{}{}); err != nil {
				return err
			}
			if err := own.End(ctx, "found"); err != nil {
				return err
			}
			if err := client.AskClient(ctx, struct{}{}, time.Time{}); err != nil {
				return err
			}
			return plain.AskClient(ctx, struct{}{}, time.Time{})
		})
	})}))
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Paused)
	begun := map[string]int{}
	for _, rec := range w.Records(c.Session) {
		c, err := rec.Decode()
		if err != nil {
			t.Fatal(err)
		}
		var id string
		switch b := c.Body.(type) {
		case chunk.ToolArgStreamStart:
			id = b.ToolCallID
		case chunk.ToolStart:
			id = b.ToolCallID
		default:
			continue
		}
		begun[id]++
		browser := len(c.Extra) == 1 && c.Extra[0].Name == "providerExecuted" && string(c.Extra[0].Value) == "false"
		if browser != (id != "own") {
			t.Errorf("%s of %s: extra members %v", c.Body.Type(), id, c.Extra)
		}
	}
	if begun["own"] != 2 || begun["client"] != 2 || begun["plain"] != 1 {
		t.Errorf("records that start a call: %v", begun)
	}
}
