package sseedge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/httpkit"
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
// ?messages=N returns only the last N messages, and the member "before" is the parameter with which messages returns those before them. With
// ?parts=N it returns at most the last N parts of these, so that it is small during a turn of any length.
func (e *Edge) snapshot(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	s := e.session(id)
	q, p := readQuery(r.URL, append(momentParameters, "root", "view")...)
	if p != nil {
		return p
	}
	name, p := e.readPage(q, &s)
	var m snapshotQuery
	if p == nil {
		m, p = q.parseSnapshotQuery()
	}
	var snap aisdk.FrontendSnapshot
	if p == nil {
		snap, p = e.loadSnapshot(r.Context(), s, m)
	}
	var page []byte
	if p == nil {
		page, p = e.shownPage(name, s, snap.AppendJSON(nil))
	}
	if p != nil {
		return p
	}
	// A browser may store it, and revalidates it each time; shared caches may not, because the content depends on the client.
	w.Header().Set("Cache-Control", "private, no-cache")
	etag := m.etag(name, snap, page)
	w.Header().Set("ETag", etag)
	if matches(r.Header, etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("X-Session-Id", id)
	e.respond.JSONText(w, http.StatusOK, page)
	return nil
}

// messages serves GET /v1/sessions/{id}/messages?before=ID&limit=N&parts=N: the messages before the one with that id, or the last ones. A call is complete in the message
// that made it, with its later outcome. The message in flight is included only with ?partial=1, as in the snapshot.
func (e *Edge) messages(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	s := e.session(id)
	q, p := readQuery(r.URL, "before", "limit", "partial", "parts", "root", "view")
	if p != nil {
		return p
	}
	page, p := e.readMessages(r.Context(), q, s)
	if p != nil {
		return p
	}
	e.writeJSON(w, s.ID, page)
	return nil
}

func (e *Edge) readMessages(ctx context.Context, q query, s chunk.Session) (messagePage, *httpkit.Problem) {
	name, p := e.readPage(q, &s)
	if p != nil {
		return messagePage{}, p
	}
	partial, p := q.readPartial()
	if p != nil {
		return messagePage{}, p
	}
	limit, p := q.readCount("limit", defaultLimit, maxLimit)
	if p != nil {
		return messagePage{}, p
	}
	parts, p := q.readCount("parts", 0, maxParts)
	if p != nil {
		return messagePage{}, p
	}
	snap, p := e.load(ctx, s, fold.PageQuery{Partial: partial, Limit: limit, Parts: parts, Before: q.values.Get("before")})
	if p != nil {
		return messagePage{}, p
	}
	shown, p := e.shownMessages(name, s, bodies(snap.Messages))
	page := messagePage{Messages: shown}
	if snap.Before != nil && *snap.Before != "" {
		page.Before = snap.Before
	}
	return page, p
}

// readPage parses the parameters of all pages of a session: the session and the view.
func (e *Edge) readPage(q query, s *chunk.Session) (view string, p *httpkit.Problem) {
	if p := q.readRoot(s); p != nil {
		return "", p
	}
	return q.readView(e.cfg.Views)
}

// readCount parses a parameter from 1 to most; the default is that of an absent or empty one.
func (q query) readCount(name string, absent, most int) (int, *httpkit.Problem) {
	text := q.values.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, badRequest(codeBadParameter, "invalid limit", name+": want 1 to "+strconv.Itoa(most))
	}
	return n, nil
}

func (e *Edge) load(ctx context.Context, s chunk.Session, q fold.PageQuery) (aisdk.FrontendSnapshot, *httpkit.Problem) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
	defer cancel()
	snap, err := e.read(ctx, s, q)
	return snap, e.loadProblem(s, err)
}

func (e *Edge) loadProblem(s chunk.Session, err error) *httpkit.Problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, chunk.ErrUnknownSession):
		return noStream
	case errors.Is(err, chunk.ErrUnknownMessage):
		return badRequest(codeBadCursor, "no such message in this session", "before: want the id of a message, or the member before of a page")
	}
	e.cfg.Log.Warn("snapshot failed", "session", s.String(), "error", err)
	return unavailable
}

// writeJSON responds with a page that must not be cached.
func (e *Edge) writeJSON(w http.ResponseWriter, session string, v any) {
	if session != "" {
		w.Header().Set("X-Session-Id", session)
	}
	e.respond.JSON(w, http.StatusOK, v)
}

func bodies(messages []aisdk.UIMessage) []json.RawMessage {
	list := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		list[i] = m.AppendJSON(nil)
	}
	return list
}
