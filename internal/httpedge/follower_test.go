package httpedge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// follower is a client that reconnects until the edge responds that the session has ended, as an EventSource does.
type follower struct {
	parser

	w      *env
	path   string
	events []wireEvent
	ids    []string
	names  []string
	bad    error // the first violation of the protocol
}

func newFollower(w *env, path string) *follower {
	f := &follower{w: w, path: path}
	f.onEvent = func(e event) {
		decoded, err := e.decode()
		if err == nil && decoded.Type == "chunk" && e.name == "" && (decoded.Sequence != seqOf(e.id) || !strings.Contains(e.id, "-")) {
			err = fmt.Errorf("event with id %s says it is %d", e.id, decoded.Sequence)
		}
		if err != nil && f.bad == nil {
			f.bad = err
		}
		f.events, f.ids, f.names = append(f.events, decoded), append(f.ids, e.id), append(f.names, e.name)
	}
	return f
}

// ending is the way in which a connection ended.
type ending int

const (
	cut     ending = iota // aborted by the server or by the client
	whole                 // cleanly
	nothing               // 204
	refused               // any other status
)

// connect opens one connection and reads at most limit bytes, all if limit is negative.
func (f *follower) connect(ctx context.Context, limit int64) (ending, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://edge"+f.path, nil)
	if err != nil {
		return refused, 0, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cache-Control", "no-cache")
	if f.lastEventID != "" {
		req.Header.Set("Last-Event-ID", f.lastEventID)
	}
	resp, err := f.w.client.Do(req)
	if err != nil {
		return cut, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nothing, resp.StatusCode, nil
	}
	if resp.StatusCode != http.StatusOK {
		return refused, resp.StatusCode, nil
	}
	body := io.Reader(resp.Body)
	if limit >= 0 {
		body = io.LimitReader(body, limit)
	}
	err = f.read(body)
	if errors.Is(err, errBadWire) || f.bad != nil {
		return cut, resp.StatusCode, errors.Join(err, f.bad)
	}
	if err != nil || limit >= 0 {
		return cut, resp.StatusCode, nil
	}
	return whole, resp.StatusCode, nil
}

// sequences returns the sequences of the received chunks.
func (f *follower) sequences() []chunk.Seq {
	var seqs []chunk.Seq
	for _, e := range f.events {
		if e.Type == "chunk" {
			seqs = append(seqs, e.Sequence)
		}
	}
	return seqs
}

// soon returns a context for a request that is expected to end by itself.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}
