package httpedge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// The sizes of a page of messages.
const (
	defaultLimit = 50
	maxLimit     = 200
	maxParts     = 10_000
)

// messagePage is a page of the conversation, oldest message first. Before is the parameter of the next request, null at the beginning of the conversation. If
// the first message lacks its first parts, Before begins with the id of that message and a slash.
type messagePage struct {
	Messages []json.RawMessage `json:"messages"`
	Before   *string           `json:"before"`
}

// snapshot serves GET /v1/sessions/{id}/snapshot. The message in flight is included only with ?partial=1; a chat cannot resume from such a snapshot.
// ?dialect=NAME returns the state in the form of that dialect; that of aisdk is the native one. ?messages=N returns only the last N messages, and the member "before" is the parameter with which messages returns those before them. With
// ?parts=N it returns at most the last N parts of these, so that it is small during a turn of any length.
func (e *Edge) snapshot(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	q := readQuery(r.URL, append(momentParameters, "root", "view", "dialect", "inline")...)
	m, form, inline := q.readSnapshotQuery(), q.readDialect(r.Header), q.readInline()
	s, name, p := e.readPage(r.Context(), q, id)
	if p != nil {
		return p
	}
	key := pageKey{session: s, view: name, inline: inline, query: m}
	if m.at != 0 || m.checkpoint != "" {
		key.query = &m // not shared: the second one of a session is rejected
	}
	if p := e.lastPosition(r.Context(), &key); p != nil {
		return p
	}
	if dialects.HasSnapshot(form) {
		return e.dialectSnapshot(w, r, key, dialectQuery{m, form})
	}
	return e.servePage(w, r, key, func(ctx context.Context) (page, *httpkit.Problem) {
		snap, hold, p := e.loadSnapshot(ctx, s, m)
		if p != nil {
			return page{}, p
		}
		text, p := e.shownPage(name, s, snap.AppendJSON(nil))
		return page{text, m.etag(name, snap, text), hold}.complete(p)
	})
}

// messages serves GET /v1/sessions/{id}/messages?before=ID&limit=N&parts=N&branch=ID: the messages before the one with that id, or the last ones. A call is complete in
// the message that made it, with its later outcome. The message in flight is included only with ?partial=1, as in the snapshot.
func (e *Edge) messages(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	q := readList(r.URL, "before", "limit", "partial", "parts", "branch", "root", "view", "inline")
	window, inline := q.readWindow(), q.readInline()
	s, name, p := e.readPage(r.Context(), q, id)
	if p != nil {
		return p
	}
	key := pageKey{session: s, view: name, inline: inline, query: window}
	if p := e.lastPosition(r.Context(), &key); p != nil {
		return p
	}
	return e.servePage(w, r, key, func(ctx context.Context) (page, *httpkit.Problem) {
		snap, hold, p := e.load(ctx, s, window)
		if p != nil {
			return page{}, p
		}
		list, p := e.messagePage(name, s, snap)
		return e.encodePage(list, hold, p)
	})
}

func (q *query) readWindow() fold.PageQuery {
	return fold.PageQuery{
		Partial: q.readPartial(), Limit: q.readCount("limit", defaultLimit, maxLimit), Parts: q.readCount("parts", 0, maxParts), Before: q.values.Get("before"),
		Branch: q.values.Get("branch"),
	}
}

func (e *Edge) messagePage(view string, s chunk.Session, snap aisdk.FrontendSnapshot) (messagePage, *httpkit.Problem) {
	shown, p := e.shownMessages(view, s, bodies(snap.Messages))
	list := messagePage{Messages: shown}
	if snap.Before != nil && *snap.Before != "" {
		list.Before = snap.Before
	}
	return list, p
}

// readPage parses the parameters of all pages of a session, the session and the view, and returns the problem of the query.
func (e *Edge) readPage(ctx context.Context, q *query, id string) (s chunk.Session, view string, p *httpkit.Problem) {
	s = chunk.RootSession("", id)
	q.readRoot(&s)
	if view = q.readView(httpkit.GrantOf(ctx), e.cfg.Views); q.problem != nil {
		return s, "", q.problem
	}
	p = e.permit(ctx, &s) // before s is returned: the order in one statement is not defined
	return s, view, p
}

// readCount parses a parameter from 1 to most; the default is that of an absent or empty one.
func (q *query) readCount(name string, absent, maxCount int) int {
	text := q.values.Get(name)
	if text == "" {
		return absent
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxCount {
		q.refuse(codeBadParameter, "invalid limit", name+": want 1 to "+strconv.Itoa(maxCount))
	}
	return n
}

// load returns the present state, and what it takes of the budget of pages. The caller releases that.
func (e *Edge) load(ctx context.Context, s chunk.Session, q fold.PageQuery) (aisdk.FrontendSnapshot, *reservation, *httpkit.Problem) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
	defer cancel()
	snap, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (aisdk.FrontendSnapshot, error) { return e.read(ctx, s, q) })
	return snap, hold, e.loadProblem(s, err)
}

func (e *Edge) loadProblem(s chunk.Session, err error) *httpkit.Problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, chunk.ErrUnknownSession):
		return noStream
	case errors.Is(err, chunk.ErrUnknownMessage):
		return badRequest(codeBadCursor, "no such message in this session", "before, branch: want the id of a message, or the member before of a page")
	case errors.Is(err, httpkit.ErrBudget):
		e.metrics.readRejected()
		return httpkit.TooManyReads
	case errors.Is(err, projector.ErrReadLimit):
		return tooLarge
	}
	return e.notDone(unavailable, err, "snapshot failed", "session", s.String())
}

// encodePage returns the page of v, or the problem.
func (e *Edge) encodePage(v any, hold *reservation, p *httpkit.Problem) (page, *httpkit.Problem) {
	if p != nil {
		return page{hold: hold}.complete(p)
	}
	text, err := json.Marshal(v)
	if err != nil {
		e.cfg.Log.Error("response encoding failed", "error", err)
		p = httpkit.Internal
	}
	return page{text: text, hold: hold}.complete(p)
}

func bodies(messages []aisdk.UIMessage) []json.RawMessage {
	list := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		list[i] = m.AppendJSON(nil)
	}
	return list
}
