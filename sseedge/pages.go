package sseedge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
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

// snapshot serves GET /v1/sessions/{id}/snapshot. With ?partial=1 the message in
// flight is in it, and its sequence is the exact last one.
func (e *Edge) snapshot(w http.ResponseWriter, r *http.Request, s chunk.Session) {
	q, p := readQuery(r.URL, "partial", "root", "view")
	if p == nil {
		p = q.readRoot(&s)
	}
	var name string
	if p == nil {
		name, p = q.readView(e.cfg.Views)
	}
	partial := q.values.Get("partial")
	if p == nil && partial != "" && partial != "0" && partial != "1" {
		p = badRequest(codeBadParameter, "unknown value", "partial: want 0 or 1")
	}
	if p != nil {
		e.refuse(w, p)
		return
	}
	snap, p := e.load(r.Context(), s, partial == "1")
	if p == nil {
		var page []byte
		if page, p = e.shownPage(name, s, snap.Page); p == nil {
			e.writeBody(w, s, page)
			return
		}
	}
	e.refuse(w, p)
}

// messages serves GET /v1/sessions/{id}/messages?before=ID&limit=N: the messages
// before the one with that id, or the last ones.
func (e *Edge) messages(w http.ResponseWriter, r *http.Request, s chunk.Session) {
	q, p := readQuery(r.URL, "before", "limit", "root", "view")
	if p == nil {
		p = q.readRoot(&s)
	}
	var name string
	if p == nil {
		name, p = q.readView(e.cfg.Views)
	}
	limit := defaultLimit
	if n := q.values.Get("limit"); p == nil && n != "" {
		var err error
		if limit, err = strconv.Atoi(n); err != nil || limit < 1 || limit > maxLimit {
			p = badRequest(codeBadParameter, "this is no limit", "limit: want 1 to 200")
		}
	}
	if p != nil {
		e.refuse(w, p)
		return
	}
	snap, p := e.load(r.Context(), s, true)
	if p == nil {
		var page messagePage
		if page, p = cutPage(snap.Messages, q.values.Get("before"), limit); p == nil {
			page.Messages, p = e.shownMessages(name, s, page.Messages)
		}
		if p == nil {
			e.writeJSON(w, s, page)
			return
		}
	}
	e.refuse(w, p)
}

// cutPage takes the last limit messages before the one with the id, or of all.
func cutPage(all []Message, before string, limit int) (messagePage, *problem) {
	end := len(all)
	if before != "" {
		end = slices.IndexFunc(all, func(m Message) bool { return m.ID == before })
		if end < 0 {
			return messagePage{}, badRequest(codeBadCursor, "no such message in this session", "before: want the id of a message")
		}
	}
	start := max(0, end-limit)
	page := messagePage{Messages: bodies(all[start:end])}
	if start > 0 {
		page.Before = &all[start].ID
	}
	return page, nil
}

func (e *Edge) load(ctx context.Context, s chunk.Session, partial bool) (Snapshot, *problem) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Attach)
	defer cancel()
	snap, err := e.snapshots.Snapshot(ctx, s, partial)
	switch {
	case errors.Is(err, chunk.ErrUnknownSession):
		return Snapshot{}, noStream
	case err != nil:
		e.cfg.Log.Warn("no snapshot", "session", s.String(), "err", err)
		return Snapshot{}, unavailable
	}
	return snap, nil
}

func (e *Edge) writeJSON(w http.ResponseWriter, s chunk.Session, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		e.cfg.Log.Error("page is no JSON", "session", s.String(), "err", err)
		e.refuse(w, internal)
		return
	}
	e.writeBody(w, s, body)
}

func (e *Edge) writeBody(w http.ResponseWriter, s chunk.Session, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Session-Id", s.ID)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body); err != nil { //nolint:gosec // JSON with nosniff; the query only chooses what is left out of it
		e.cfg.Log.Debug("page was not read", "session", s.String(), "err", err)
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
