package chat

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/sse"
)

// parsers read what the clients of a dialect post.
var parsers = map[string]func(text []byte, h http.Header) (dialect.Request, *httpkit.Problem){
	dialect.AISDK: func(text []byte, _ http.Header) (dialect.Request, *httpkit.Problem) {
		req, err := aisdk.ParseChatInput(text)
		return req, invalid(err)
	},
	dialect.AGUI: func(text []byte, h http.Header) (dialect.Request, *httpkit.Problem) {
		in, err := agui.ParseRunInput(text)
		req := runRequest(in)
		cursor, ok, p := readCursor(h)
		if ok {
			req.LastEvent = &cursor
		}
		return req, cmp.Or(invalid(err), p)
	},
}

// readCursor returns the last event that the client of a GET has, CS-1. A malformed cursor is refused, as at an event stream: a client that got the whole answer
// instead would show it twice. "undefined" and "null" are not cursors, CS-2: that is what a page sends whose variable has no value yet.
func readCursor(h http.Header) (c chunk.Cursor, ok bool, p *httpkit.Problem) {
	cursor, ok, err := sse.ReadHeaderCursor(h, "undefined", "null")
	if err != nil {
		return chunk.Cursor{}, false, badCursor
	}
	return cursor.Cursor, ok, nil
}

// resumeFrom returns the sequence that the client of a GET resumes after, nil without a cursor. If the log was rolled back or recreated since the client got
// the event, that is the beginning: the client gets the whole answer, because it may show parts of an answer that no longer exists.
func (s *Service) resumeFrom(r *http.Request, session chunk.Session) (*chunk.Seq, *httpkit.Problem) {
	cursor, ok, p := readCursor(r.Header)
	if p != nil || !ok {
		return nil, p
	}
	if cursor.Anchor == 0 {
		return &cursor.Seq, nil
	}
	ctx, cancel := s.withTimeout(r.Context())
	defer cancel()
	err := s.shared.Hub.CheckCursor(ctx, session, cursor)
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case isTruncated && truncated.Reason == chunk.TruncatedRecreated:
		cursor.Seq = 0
	case err != nil && !isTruncated:
		return nil, problemOf(s.logic.Failed(ctx, session, "cursor", err))
	}
	return &cursor.Seq, nil
}
