package httpedge

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/subjects"
)

// maxSessions is the maximum number of sessions of one connection.
const maxSessions = 32

// multiSessionEvents serves GET /v1/events?session=a&session=b: several sessions on one connection, for a page with many chats. A browser opens six connections
// to a host over HTTP/1.
//
// Every event has the name "session:<id>", and its id has the positions in all the sessions, in the order of the query: "17-mgj6k3gb.0.2093". So it is a cursor
// for a reconnect with the same query, which is what an EventSource sends. A session has no further events after it is complete, or, if it does not exist or
// was deleted, after the truncated event that reports this: one deleted chat must not end the others. The response ends when no session has further events.
func (e *Edge) multiSessionEvents(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	s, p := e.newMultiSessionStream(r)
	if p != nil {
		return p
	}
	return e.open(w, r, s)
}

// newMultiSessionStream is separate for the reason of newStream.
//
//go:noinline
func (e *Edge) newMultiSessionStream(r *http.Request) (*stream, *httpkit.Problem) {
	reqs, p := readStreams(r, e.cfg.Views)
	if p != nil {
		return nil, p
	}
	s := &stream{edge: e, named: true}
	for _, req := range reqs {
		name := req.Session.ID
		if p := e.permit(r.Context(), &req.Session); p != nil {
			return nil, p
		}
		v, p := e.subscribe(r, req)
		if p != nil {
			return nil, p
		}
		v.multiplexed, v.name = true, name
		s.subscriptions = append(s.subscriptions, v)
	}
	return s, nil
}

// readStreams parses a request for several sessions. The parameters scope, types, exclude and view are those of readStream and apply to all sessions.
func readStreams(r *http.Request, views *view.Views) ([]hub.Request, *httpkit.Problem) {
	q := readQuery(r.URL, streamParameters...)
	for _, name := range []string{"root", "agent"} {
		if q.values.Get(name) != "" {
			q.refuse(codeBadParameter, "not for several sessions", name+": want none")
		}
	}
	ids := q.values["session"]
	if len(ids) == 0 || len(ids) > maxSessions {
		q.refuse(codeBadParameter, "this is not a list of sessions", "session: want it 1 to "+strconv.Itoa(maxSessions)+" times")
	}
	cursors := q.readCursors(r.Header, len(ids))
	if q.problem != nil {
		return nil, q.problem
	}
	g := httpkit.GrantOf(r.Context())
	reqs := make([]hub.Request, len(ids))
	for i, id := range ids {
		if subjects.CheckID("session", id) != nil {
			return nil, badSession
		}
		if slices.Contains(ids[:i], id) {
			return nil, badRequest(codeBadParameter, "a session is given twice", "session: want each once")
		}
		reqs[i].Session = chunk.RootSession("", id)
		q.readStream(&reqs[i], cursors[i], g, views)
	}
	return reqs, q.problem
}

// sendNamedEvent sends the frames of one session. All clients of the session share the frames, so they are copied, with the name of the session and the
// positions of this client in the other sessions added.
func (s *stream) sendNamedEvent(v *subscription, batch hub.Batch) error {
	before, after := s.cursorParts(v)
	dst := s.scratch[:0]
	for rest := batch.Frames; len(rest) > 0; {
		var frame []byte
		frame, rest, _ = bytes.Cut(rest, endOfFrame)
		fields, hasID := bytes.CutPrefix(frame, startOfFrame)
		var place []byte
		if hasID {
			place, fields, _ = bytes.Cut(fields, []byte("\n"))
			v.at = string(place)
		}
		if len(fields) > 0 {
			dst = append(dst, "event: session:"...)
			dst = append(dst, v.name...) // an id has no line break, see subjects.CheckID
			dst = append(dst, '\n')
		}
		if hasID {
			dst = append(dst, startOfFrame...)
			dst = append(dst, before...)
			dst = append(dst, place...)
			dst = append(dst, after...)
			dst = append(dst, '\n')
		}
		if len(fields) > 0 {
			dst = append(dst, fields...)
			dst = append(dst, '\n')
		}
		dst = append(dst, '\n')
	}
	s.scratch = dst
	id := ""
	if batch.SkipTo.Seq != 0 {
		v.at = batch.SkipTo.String()
		id = before + v.at + after
	}
	return s.out.Send(dst, id)
}

// A native frame is "id: <cursor>\ndata: <one line>\n\n". In other dialects, frames may have no id, or nothing else.
var (
	startOfFrame = []byte("id: ")
	endOfFrame   = []byte("\n\n")
)

// cursorParts returns the parts of the cursor before and after the position in v.
func (s *stream) cursorParts(v *subscription) (before, after string) {
	places := make([]string, len(s.subscriptions))
	for i, other := range s.subscriptions {
		places[i] = other.at
	}
	i := slices.Index(s.subscriptions, v)
	places[i] = ""
	return strings.Join(places[:i+1], "."), strings.Join(places[i:], ".")
}

// epochs returns the stream epochs of the sessions, in the order of the sessions and separated by dots. That of a session that is complete and delivered is empty.
func (s *stream) epochs() string {
	epochs := make([]string, len(s.subscriptions))
	for i, v := range s.subscriptions {
		epochs[i] = v.epoch()
	}
	return strings.Join(epochs, ".")
}
