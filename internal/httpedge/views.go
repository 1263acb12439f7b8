package httpedge

import (
	"encoding/json"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/view"
)

// readView returns the view for the request, see access.View.
func (q *query) readView(g *auth.Grant, views *view.Views) string {
	name, allowed := access.View(g, views, q.values.Get("view"))
	if !allowed {
		q.refuse(codeBadParameter, "there is no such view", "view: want the name of a view that is offered here")
	}
	return name
}

// shownPage returns the page of a snapshot with a view applied.
func (e *Edge) shownPage(name string, s chunk.Session, page chunk.Value) ([]byte, *httpkit.Problem) {
	compiled := e.cfg.Views.Get(name)
	if compiled == nil {
		return page, nil
	}
	shown, err := compiled.Snapshot(s, page)
	return e.shownText(name, s, shown, err)
}

// shownRow returns the row of a list with a view applied.
func (e *Edge) shownRow(name string, s chunk.Session, row chunk.Value) ([]byte, *httpkit.Problem) {
	compiled := e.cfg.Views.Get(name)
	if compiled == nil {
		return row, nil
	}
	shown, err := compiled.Listed(s, row)
	return e.shownText(name, s, shown, err)
}

func (e *Edge) shownText(name string, s chunk.Session, shown []byte, err error) ([]byte, *httpkit.Problem) {
	if err != nil {
		e.cfg.Log.Error("view of a page failed", "session", s.String(), "view", name, "error", err)
		return nil, httpkit.Internal
	}
	return shown, nil
}

// shownMessages returns messages with a view applied, without those that the view hides completely.
func (e *Edge) shownMessages(name string, s chunk.Session, all []json.RawMessage) ([]json.RawMessage, *httpkit.Problem) {
	compiled := e.cfg.Views.Get(name)
	if compiled == nil {
		return all, nil
	}
	shown := make([]json.RawMessage, 0, len(all))
	for _, m := range all {
		text, visible, err := compiled.Message(s, m)
		if err != nil {
			e.cfg.Log.Error("view of a message failed", "session", s.String(), "view", name, "error", err)
			return nil, httpkit.Internal
		}
		if visible {
			shown = append(shown, text)
		}
	}
	return shown, nil
}
