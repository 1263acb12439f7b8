package sseedge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// The sizes of a page of messages.
const (
	defaultLimit = 50
	maxLimit     = 200
)

// messagePage is a piece of the conversation, oldest message first. Before is
// what to ask for next, null at the beginning of the conversation.
type messagePage struct {
	Messages []json.RawMessage `json:"messages"`
	Before   *string           `json:"before"`
}

// snapshot serves GET /v1/sessions/{id}/snapshot at a moment. The message in
// flight is left out unless it is asked for, and then the snapshot is for reading,
// not for a chat to resume from. ?messages=N leaves out all but the last N, and
// the member before says how to ask messages for those before them.
func (e *Edge) snapshot(w http.ResponseWriter, r *http.Request, s chunk.Session) {
	q, p := readQuery(r.URL, append(momentParameters, "root", "view")...)
	if p != nil {
		e.refuse(w, p)
		return
	}
	name, p := e.readPage(q, &s)
	var m moment
	if p == nil {
		m, p = q.readMoment()
	}
	var snap Snapshot
	if p == nil {
		snap, p = e.loadMoment(r.Context(), s, m)
	}
	var page []byte
	if p == nil {
		page, p = e.shownPage(name, s, snap.Page)
	}
	if p != nil {
		e.refuse(w, p)
		return
	}
	// A browser may keep it, and asks each time whether it is still right; nobody
	// between may, for what is shown depends on who asks.
	w.Header().Set("Cache-Control", "private, no-cache")
	etag := m.etag(name, snap, page)
	w.Header().Set("ETag", etag)
	if matches(r.Header, etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	e.writeBody(w, s.ID, page)
}

// messages serves GET /v1/sessions/{id}/messages?before=ID&limit=N: the messages
// before the one with that id, or the last ones. A call is whole in the message
// that made it, with what came of it later. The message in flight is left out
// unless ?partial=1 asks for it, as from the snapshot.
func (e *Edge) messages(w http.ResponseWriter, r *http.Request, s chunk.Session) {
	q, p := readQuery(r.URL, "before", "limit", "partial", "root", "view")
	if p != nil {
		e.refuse(w, p)
		return
	}
	page, p := e.readMessages(r.Context(), q, s)
	if p != nil {
		e.refuse(w, p)
		return
	}
	e.writeJSON(w, s.ID, page)
}

func (e *Edge) readMessages(ctx context.Context, q query, s chunk.Session) (messagePage, *problem) {
	name, p := e.readPage(q, &s)
	if p != nil {
		return messagePage{}, p
	}
	partial, p := q.readPartial()
	if p != nil {
		return messagePage{}, p
	}
	limit, p := q.readLimit()
	if p != nil {
		return messagePage{}, p
	}
	snap, p := e.load(ctx, s, Want{Partial: partial, Messages: limit, Before: q.values.Get("before")})
	if p != nil {
		return messagePage{}, p
	}
	shown, p := e.shownMessages(name, s, bodies(snap.Messages))
	return messagePage{Messages: shown, Before: snap.Before}, p
}

// readPage reads what every page of a session has: whose it is, and in which view.
func (e *Edge) readPage(q query, s *chunk.Session) (view string, p *problem) {
	if p := q.readRoot(s); p != nil {
		return "", p
	}
	return q.readView(e.cfg.Views)
}

func (q query) readLimit() (int, *problem) {
	text := q.values.Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	return readCount("limit", text)
}

func readCount(name, text string) (int, *problem) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, badRequest(codeBadParameter, "this is no limit", name+": want 1 to "+strconv.Itoa(maxLimit))
	}
	return n, nil
}

func (e *Edge) load(ctx context.Context, s chunk.Session, w Want) (Snapshot, *problem) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Attach)
	defer cancel()
	snap, err := e.snapshots.Snapshot(ctx, s, w)
	return snap, e.loadProblem(s, err)
}

func (e *Edge) loadProblem(s chunk.Session, err error) *problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, chunk.ErrUnknownSession):
		return noStream
	case errors.Is(err, chunk.ErrUnknownMessage):
		return badRequest(codeBadCursor, "no such message in this session", "before: want the id of a message")
	}
	e.cfg.Log.Warn("no snapshot", "session", s.String(), "err", err)
	return unavailable
}

// writeJSON answers with a page that nobody may keep.
func (e *Edge) writeJSON(w http.ResponseWriter, session string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		e.cfg.Log.Error("page is no JSON", "session", session, "err", err)
		e.refuse(w, internal)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	e.writeBody(w, session, body)
}

func (e *Edge) writeBody(w http.ResponseWriter, session string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if session != "" {
		h.Set("X-Session-Id", session)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body); err != nil { //nolint:gosec // JSON with nosniff; the query only chooses what is left out of it
		e.cfg.Log.Debug("page was not read", "session", session, "err", err)
	}
}

func bodies(messages []Message) []json.RawMessage {
	list := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		list[i] = orNull(m.JSON)
	}
	return list
}

func orNull(v chunk.Value) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return json.RawMessage(v)
}
