package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/projector"
)

// dialects measures the dialects in two ways. A whole response of an edge with a long turn is compared with the response in the native dialect. The writer alone,
// which is what a dialect costs for each client, is compared with copying native frames in memory, which is what the native dialect costs.
func (l *harness) dialects(ctx context.Context) ([]pair, error) {
	responses, err := l.dialectResponses(ctx)
	if err != nil {
		return nil, err
	}
	writers, err := l.dialectWriters()
	return append(responses, writers...), err
}

func (l *harness) dialectResponses(ctx context.Context) ([]pair, error) {
	w, err := l.env(ctx)
	if err != nil {
		return nil, err
	}
	session := w.sessionWriter("dialects")
	session.turnOf(l.cfg.size(100))
	n := len(session.pending)
	if err := w.write(ctx, n, session); err != nil {
		return nil, err
	}
	read := func(dialect string) work {
		return func(ctx context.Context, _ int) (figures, error) {
			edge, err := w.edge(ctx)
			if err != nil {
				return nil, err
			}
			path := "http://" + edge.addr + eventsOf(session.session.ID) + "?dialect=" + dialect
			err = readResponse(ctx, path) // then the records are in the memory of the hub
			start := time.Now()
			for range responseRepeat {
				if err == nil {
					err = readResponse(ctx, path)
				}
			}
			took := time.Since(start)
			return rate(responseRepeat*n, took), errors.Join(err, edge.close())
		}
	}
	var pairs []pair
	for _, name := range dialects.Written() {
		if name == dialect.Native {
			continue
		}
		pairs = append(pairs, pair{
			name: fmt.Sprintf("dialects-%s-response-%d", name, n), baseline: "the native response of the edge", targets: []target{{figure: chunksPerSecond, ratioAtLeast: 0.5}},
			ours: read(name), raw: read(dialect.Native),
		})
	}
	return pairs, nil
}

const responseRepeat = 5

// readResponse reads a response to its end.
func readResponse(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && (resp.StatusCode != http.StatusOK || n == 0) {
		err = fmt.Errorf("%s: status %d, %d bytes", url, resp.StatusCode, n)
	}
	return err
}

// turnOf adds a turn with the chunks of several.
func (s *sessionWriter) turnOf(turns int) {
	s.turn()
	start, end := s.pending[0], s.pending[len(s.pending)-1]
	bodies := []chunk.Body{start}
	for range turns {
		bodies = append(bodies, s.pending[1:len(s.pending)-1]...)
		s.pending = s.pending[:0]
		s.turn()
	}
	bodies = append(bodies, end)
	s.epoch, s.pending = 1, bodies
}

// edge starts an edge over the log of the environment.
func (w *env) edge(ctx context.Context) (*edge, error) {
	authenticator, err := authn.NewNone("default")
	if err != nil {
		return nil, err
	}
	made, err := httpedge.New(w.reader, projector.NewReader(w.store, w.reader), httpedge.Config{Authenticator: authenticator, Layout: w.layout})
	if err != nil {
		return nil, err
	}
	site, err := serveEdge(ctx, made)
	if err != nil {
		return nil, err
	}
	return &edge{httpSite: site, hub: made.Shared().Hub}, nil
}

func (l *harness) dialectWriters() ([]pair, error) {
	records, err := l.turnRecords()
	if err != nil {
		return nil, err
	}
	native := make([][]byte, len(records))
	for i, rec := range records {
		native[i] = helix.Encode(nil, rec, chunk.ScopeTree)
	}
	turns := l.cfg.size(2000)
	copied := func(context.Context, int) (figures, error) {
		var dst []byte
		return perChunk(turns*len(records), func() {
			for range turns {
				dst = dst[:0]
				for _, frame := range native {
					dst = append(dst, frame...)
				}
			}
		}), nil
	}
	var pairs []pair
	for _, name := range dialects.Written() {
		if name == dialect.Native {
			continue
		}
		pairs = append(pairs, pair{
			name: "dialects-" + name + "-writer", baseline: "copying native frames in memory", raw: copied,
			ours: func(context.Context, int) (figures, error) {
				var dst []byte
				done := true
				f := perChunk(turns*len(records), func() {
					for range turns {
						dst = dst[:0]
						w := dialects.NewWriter(name, dialects.Turn{Session: records[0].Session, MessageID: "msg-1"})
						for _, rec := range records {
							dst = w.Append(dst, rec)
						}
						done = done && w.Done()
					}
				})
				if !done {
					return nil, fmt.Errorf("%s: a turn is not over after its last record", name)
				}
				return f, nil
			},
		})
	}
	return pairs, nil
}

// turnRecords returns the records of one turn.
func (l *harness) turnRecords() ([]chunk.Record, error) {
	w := &sessionWriter{session: rootSession("dialects")}
	w.turn()
	var records []chunk.Record
	for i, body := range w.pending {
		c := chunk.Chunk{AgentID: w.session.ID, AgentType: "bench", Timestamp: 1_760_000_000_000 + int64(i), Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		n := chunk.Seq(i + 1)
		records = append(records, chunk.Record{
			Seq: n, Session: w.session, Epoch: 1, Ordinal: chunk.Ordinal(n), Type: c.Type(), StoredAt: time.UnixMilli(c.Timestamp), Data: data,
		})
	}
	return records, nil
}

// perChunk returns the rate of n chunks that do handles, and what it allocates for each.
func perChunk(n int, do func()) figures {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	do()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	each := func(total uint64) float64 { return float64(total) / float64(n) }
	return append(rate(n, took), figure{"allocations/chunk", each(after.Mallocs - before.Mallocs)}, figure{"allocated bytes/chunk", each(after.TotalAlloc - before.TotalAlloc)})
}
