package httpedge

import (
	"context"
	"crypto/sha256"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/projector/fold"
)

// readDialect returns the dialect of a response: ?dialect=, or the parameter profile of the first type in Accept that has one. It is "" for the native one. The caller
// has read the other possible values.
func (q *query) readDialect(h http.Header, others ...string) string {
	name := q.values.Get("dialect")
	if name == "" {
		name = profileOf(h)
	}
	switch {
	case name == "", name == dialect.Native:
		return ""
	case !dialects.Writes(name):
		possible := append(dialects.Written(), others...)
		text, near := dialect.Unknown(name, possible)
		q.fail(badRequest(codeBadParameter, "unknown dialect", text).Meant(near, possible))
		return ""
	}
	return name
}

func profileOf(h http.Header) string {
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept"), ","), ",") {
		if _, params, err := mime.ParseMediaType(part); err == nil && params["profile"] != "" {
			return params["profile"]
		}
	}
	return ""
}

// readTurn changes a request to one for whole records and returns the turn that the client reads, nil if it reads the native dialect or all records.
func (e *Edge) readTurn(q *query, h http.Header, req *hub.Request) *Turn {
	if q.values.Get("dialect") == dialect.Records {
		req.Encoding += recordsOf
		return nil
	}
	name := q.readDialect(h, dialect.Records)
	if name == "" {
		return nil
	}
	if len(req.Filter.Types)+len(req.Filter.Exclude) > 0 || req.Filter.Agent != "" {
		q.refuse(codeBadParameter, "a dialect has no filters", "types, exclude, agent: want none with dialect")
	}
	t := &Turn{Dialect: name, AISDK: e.cfg.AISDK, View: e.cfg.Views.Get(req.Encoding).Chat(), After: req.After, Continues: true}
	req.Encoding = hub.RecordEncoding
	return t
}

// dialectQuery is the key of a snapshot in a dialect.
type dialectQuery struct {
	snapshotQuery

	dialect string
}

// dialectSnapshot serves a snapshot in the form of a dialect: the present state, with the last messages or with all.
func (e *Edge) dialectSnapshot(w http.ResponseWriter, r *http.Request, key pageKey, q dialectQuery) *httpkit.Problem {
	if q.at != 0 || q.checkpoint != "" {
		return badRequest(codeBadParameter, "an earlier state has no dialect", "dialect: want none with at or checkpoint")
	}
	key.query = q
	return e.servePage(w, r, key, func(ctx context.Context) (page, *httpkit.Problem) {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
		defer cancel()
		read, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (fold.Content, error) {
			return e.readContent(ctx, key.session, q.snapshotQuery)
		})
		if err != nil {
			return page{hold: hold}.complete(e.loadProblem(key.session, err))
		}
		text := dialects.AppendSnapshot(q.dialect, nil, e.cfg.Views.Get(key.view).Chat().Snapshot(read))
		sum := sha256.Sum256(text)
		return page{text, fmt.Sprintf(`W/"%d-%x"`, read.Position.Seq, sum[:12]), hold}.complete(nil)
	})
}

// readContent reads the present state, with all messages if q has no number of them.
func (e *Edge) readContent(ctx context.Context, s chunk.Session, q snapshotQuery) (fold.Content, error) {
	if q.messages > 0 {
		p, err := e.snapshots.MessagePage(ctx, s, fold.PageQuery{Partial: q.partial, Limit: q.messages, Parts: q.parts, Branch: q.branch})
		if err != nil {
			return fold.Content{}, err
		}
		return p.Content(), nil
	}
	snap, err := e.readWhole(ctx, s, q.branch)
	if err != nil {
		return fold.Content{}, err
	}
	return snap.Content(q.partial), nil
}
