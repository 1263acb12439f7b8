package sseedge

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/projector/fold"
)

// dialectQuery is the key of a snapshot in a dialect.
type dialectQuery struct {
	snapshotQuery

	dialect string
}

// dialectSnapshot serves a snapshot in the form of a dialect: the present state, with the last messages or with all. A view cannot be applied to it.
func (e *Edge) dialectSnapshot(w http.ResponseWriter, r *http.Request, key pageKey, q dialectQuery) *httpkit.Problem {
	switch {
	case q.at != 0 || q.checkpoint != "":
		return badRequest(codeBadParameter, "an earlier state has no dialect", "dialect: want none with at or checkpoint")
	case e.cfg.Views.Get(key.view) != nil:
		return badRequest(codeBadParameter, "a view has no snapshots in this dialect", "dialect: want native, aisdk, or the events from the beginning")
	}
	key.query = q
	return e.servePage(w, r, key, func(ctx context.Context) (page, *httpkit.Problem) {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
		defer cancel()
		read, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (dialectPage, error) { return e.readDialect(ctx, key.session, q) })
		return page{read.text, read.etag(), hold}.complete(e.loadProblem(key.session, err))
	})
}

// dialectPage is a snapshot at a sequence.
type dialectPage struct {
	text []byte
	at   chunk.Seq
}

// etag identifies the text, see snapshotQuery.etag.
func (d dialectPage) etag() string {
	sum := sha256.Sum256(d.text)
	return fmt.Sprintf(`W/"%d-%x"`, d.at, sum[:12])
}

func (e *Edge) readDialect(ctx context.Context, s chunk.Session, q dialectQuery) (dialectPage, error) {
	if q.messages > 0 {
		p, err := e.snapshots.MessagePage(ctx, s, fold.PageQuery{Partial: q.partial, Limit: q.messages, Parts: q.parts})
		if err != nil {
			return dialectPage{}, err
		}
		return dialectPage{dialects.AppendPage(q.dialect, nil, p), p.Current().Position.Seq}, nil
	}
	snap, err := e.snapshots.Snapshot(ctx, s)
	if err != nil {
		return dialectPage{}, err
	}
	return dialectPage{dialects.AppendSnapshot(q.dialect, nil, snap, q.partial), snap.Position.Seq}, nil
}
