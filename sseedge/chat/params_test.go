package chat

import (
	"context"
	"testing"

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
