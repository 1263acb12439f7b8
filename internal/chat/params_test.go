package chat

import (
	"context"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
)

// What a page adds to the body of a message reaches the agent of that message: the first one, an edited one, and another answer.
func TestOtherMembersReachTheAgent(t *testing.T) {
	w := newEnv(t)
	params := make(chan string, 10)
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, w *env) error {
		params <- string(c.Params)
		return answer(ctx, c, run, w)
	})
	e := w.newEdge(nil)
	for _, row := range []struct{ members, message, want string }{
		{`,"model":"large","search":{"on":true}`, user("u1", "hi"), `{"model":"large","search":{"on":true}}`},
		{`,"model":"small","messageId":"u1"`, user("u1", "hello"), `{"model":"small"}`},
		{``, user("u2", "and?"), `null`},
	} {
		e.post("", chatBody(row.members, row.message))
		if got := <-params; got != row.want {
			t.Errorf("%s: %s, want %s", row.members, got, row.want)
		}
	}
}

// A data part of a user is in the input of the run, in every snapshot, and in the input of another answer.
func TestDataPartsReachTheAgentAndPages(t *testing.T) {
	w := newEnv(t)
	inputs := make(chan []chunk.InputMessage, 10)
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, w *env) error {
		inputs <- c.Input
		return answer(ctx, c, run, w)
	})
	e := w.newEdge(nil)
	const part = `{"type":"data-place","id":"d1","data":{"lat":46.9}}`
	message := `{"id":"u1","role":"user","parts":[{"type":"text","text":"here?"},` + part + `]}`
	for _, members := range []string{"", `,"trigger":"regenerate-message","messageId":"msg-1"`} {
		e.post("", chatBody(members, message))
		in := <-inputs
		if len(in) != 1 || len(in[0].Data) != 1 || in[0].Data[0].Name != "place" || string(in[0].Data[0].Data) != `{"lat":46.9}` {
			t.Errorf("input of %s: %+v", members, in)
		}
		if page := e.get("/snapshot", nil); !strings.Contains(page, part) {
			t.Errorf("the snapshot after %s: %s", members, page)
		}
	}
}
