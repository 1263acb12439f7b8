package workers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
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
			t.Errorf("%s of %s: extra members %v", c.Type(), id, c.Extra)
		}
	}
	if begun["own"] != 2 || begun["client"] != 2 || begun["plain"] != 1 {
		t.Errorf("records that start a call: %v", begun)
	}
}

// A call that was started may be handed to the browser or to a user. The run is suspended, and the answers are in the history.
func TestStartedCallIsHandedOver(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "handing", "Hello?")
	w.serve(w.worker(map[string]Agent{"handing": AgentFunc(func(ctx context.Context, t *Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *Step) error {
			if t.Steps() > 0 {
				s.MarkFinal()
				for _, call := range s.ApprovedCalls() {
					if err := call.End(ctx, "deleted"); err != nil {
						return err
					}
				}
				return nil
			}
			client, asking, own := s.ClientTool("client", "location"), s.ClientTool("asking", "delete"), s.Tool("own", "search")
			for _, call := range []*Call{client, asking, own} {
				if err := call.Start(ctx, map[string]int{"a": 1}); err != nil {
					return err
				}
			}
			if err := own.AwaitClient(ctx, time.Time{}); !errors.Is(err, chunk.ErrInvalid) {
				return fmt.Errorf("call of Tool: %w", err)
			}
			if err := client.AwaitClient(ctx, time.Time{}); err != nil {
				return err
			}
			if err := client.End(ctx, 1); !errors.Is(err, chunk.ErrInvalid) {
				return fmt.Errorf("call of the browser: %w", err)
			}
			return errors.Join(asking.AwaitApproval(ctx, time.Now().Add(time.Hour)), own.End(ctx, "found"))
		})
	})}))
	w.Request(c)
	snap := w.AwaitStatus(c.Session, fold.Paused)
	calls := snap.PendingCalls()
	if len(calls) != 2 || calls[0].Kind != fold.PendingApproval || calls[0].Deadline == 0 || string(calls[0].Input) != `{"a":1}` || calls[1].Kind != fold.PendingClient {
		t.Fatalf("pending calls %+v", calls)
	}
	for _, a := range []control.Answer{
		{CallID: "client", ToolName: "location", Kind: control.ClientResult, Result: chunk.Value(`"Bern"`)},
		{CallID: "asking", ToolName: "delete", Kind: control.Approval, ApprovalID: calls[0].ApprovalID, Approved: true},
	} {
		a.Session, a.RunID = c.Session, c.RunID
		w.answer(a)
	}
	w.resume(c.Session, c.AgentType, c.RunID)
	got := ""
	for _, call := range w.AwaitStatus(c.Session, fold.Ended).Messages(1)[0].Calls() {
		got += fmt.Sprintf("%s %s %s; ", call.ID, call.State, call.Output)
	}
	if want := `client output-available "Bern"; asking output-available "deleted"; own output-available "found"; `; got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
}
