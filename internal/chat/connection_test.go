package chat

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
)

// No response of a stream has "Connection: close": fetch of Node.js 20 takes a response with it for complete however the connection ends, also if the edge was
// killed. The connection of a complete response serves the next request, without the write deadline of the stream.
func TestStreamKeepsConnection(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
		if err := say(ctx, run, 1, "hi"); err != nil {
			return err
		}
		return run.End(ctx, nil)
	})
	e.post("", chatBody("", user("u1", "hi")))
	w.AwaitStatus(chunk.RootSession("acme", "s1"), "ended")
	for n := range 2 {
		var reused bool
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
		r := must(http.NewRequestWithContext(ctx, http.MethodGet, e.URL+"/api/chat/s1/stream", nil))(t)
		r.Header.Set("X-Resume-From-Sequence", "0")
		resp, err := e.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 1 || resp.Close {
			t.Errorf("got %s over HTTP/%d, connection to be closed: %v", resp.Status, resp.ProtoMajor, resp.Close)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close()
		if n > 0 && !reused {
			t.Error("the connection was closed after a complete response")
		}
	}
}
