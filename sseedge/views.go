package sseedge

import (
	"encoding/json"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/sseedge/view"
)

// readView returns the view that serves the request, "" for none: the one it names, if it may, or the default one. Which views exist is not reported.
func (q query) readView(views *view.Views) (string, *httpkit.Problem) {
	name, allowed := views.Select(q.values.Get("view"))
	if !allowed {
		return "", badRequest(codeBadParameter, "there is no such view", "view: want the name of a view that is offered here")
	}
	return name, nil
}

// shownPage is what a view shows of a snapshot's page.
func (e *Edge) shownPage(name string, s chunk.Session, page chunk.Value) ([]byte, *httpkit.Problem) {
	compiled := e.cfg.Views.Get(name)
	if compiled == nil {
		return page, nil
	}
	shown, err := compiled.Snapshot(s, page)
	if err != nil {
		e.cfg.Log.Error("view of a snapshot failed", "session", s.String(), "view", name, "error", err)
		return nil, httpkit.Internal
	}
	return shown, nil
}

// shownMessages is what a view shows of messages; those of which it shows nothing
// are left out.
func (e *Edge) shownMessages(name string, s chunk.Session, all []json.RawMessage) ([]json.RawMessage, *httpkit.Problem) {
	compiled := e.cfg.Views.Get(name)
	if compiled == nil {
		return all, nil
	}
	shown := make([]json.RawMessage, 0, len(all))
	for _, m := range all {
		text, something, err := compiled.Message(s, m)
		if err != nil {
			e.cfg.Log.Error("view of a message failed", "session", s.String(), "view", name, "error", err)
			return nil, httpkit.Internal
		}
		if something {
			shown = append(shown, text)
		}
	}
	return shown, nil
}
