package sseedge

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/sse"
	"github.com/tailrace/tailrace/sseedge/view"
	"github.com/tailrace/tailrace/subjects"
)

// maxSessions is how many sessions one connection may show.
const maxSessions = 32

// multiSessionEvents serves GET /v1/events?session=a&session=b: several sessions on one connection, for a page with many chats. A browser opens six connections
// to a host over HTTP/1.
//
// Every event has the name "session:<id>", and its id has the positions in all the sessions, in the order of the query: "17.0.2093". So it is a cursor for a
// reconnect with the same query, which is what an EventSource sends. A session that is complete is silent, and so is one that does not exist, or was deleted,
// after the truncated event that reports it: one deleted chat must not end the others. The response ends when all are silent.
func (e *Edge) multiSessionEvents(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	reqs, p := readStreams(r, e.cfg.Tenant, e.cfg.Views)
	s := &stream{edge: e, named: true}
	for _, req := range reqs {
		v := newSubscription(e, req)
		v.multiplexed = true
		s.subscriptions = append(s.subscriptions, v)
	}
	e.open(w, r, p, s)
	return nil
}

// readStreams reads what a request for several sessions wants. Scope, types,
// exclude and view are those of readStream and hold for all of them.
func readStreams(r *http.Request, tenant string, views *view.Views) ([]hub.Request, *httpkit.Problem) {
	q, p := readQuery(r.URL, streamParameters...)
	if p != nil {
		return nil, p
	}
	for _, name := range []string{"root", "agent"} {
		if q.values.Get(name) != "" {
			return nil, badRequest(codeBadParameter, "not for several sessions", name+": want none")
		}
	}
	ids := q.values["session"]
	if len(ids) == 0 || len(ids) > maxSessions {
		return nil, badRequest(codeBadParameter, "this is no list of sessions", "session: want it 1 to "+strconv.Itoa(maxSessions)+" times")
	}
	cursors, err := sse.ReadCursors(r.Header, q.values, len(ids))
	if err != nil {
		return nil, badRequest(codeBadCursor, "the cursor cannot be read", err.Error())
	}
	reqs := make([]hub.Request, len(ids))
	for i, id := range ids {
		if subjects.CheckToken("session", id) != nil {
			return nil, badSession
		}
		if slices.Contains(ids[:i], id) {
			return nil, badRequest(codeBadParameter, "a session is given twice", "session: want each once")
		}
		reqs[i].Session = chunk.RootSession(tenant, id)
		if p := q.readStream(&reqs[i], cursors[i], views); p != nil {
			return nil, p
		}
	}
	return reqs, nil
}

// sendNamedEvent sends the frames of one session. They are shared by all who watch
// it, so what is this client's own is put around a copy: the name of the session,
// and the places in the others.
func (s *stream) sendNamedEvent(v *subscription, batch hub.Batch) error {
	before, behind := s.cursorParts(v)
	dst := s.scratch[:0]
	for rest := batch.Frames; len(rest) > 0; {
		var frame []byte
		frame, rest, _ = bytes.Cut(rest, endOfFrame)
		place, fields, _ := bytes.Cut(bytes.TrimPrefix(frame, startOfFrame), []byte("\n"))
		v.at = string(place)
		dst = append(dst, "event: session:"...)
		dst = append(dst, v.req.Session.ID...) // a token: letters, digits, - and _
		dst = append(dst, "\nid: "...)
		dst = append(dst, before...)
		dst = append(dst, place...)
		dst = append(dst, behind...)
		dst = append(dst, '\n')
		dst = append(dst, fields...)
		dst = append(dst, endOfFrame...)
	}
	s.scratch = dst
	id := ""
	if batch.SkipTo != 0 {
		v.at = strconv.FormatUint(uint64(batch.SkipTo), 10)
		id = before + v.at + behind
	}
	return s.out.Send(dst, id)
}

// A native frame is "id: <seq>\ndata: <one line>\n\n".
var (
	startOfFrame = []byte("id: ")
	endOfFrame   = []byte("\n\n")
)

// cursorParts is the part of a cursor before the place of v, and that behind it.
func (s *stream) cursorParts(v *subscription) (before, behind string) {
	places := make([]string, len(s.subscriptions))
	for i, other := range s.subscriptions {
		places[i] = other.at
	}
	i := slices.Index(s.subscriptions, v)
	places[i] = ""
	return strings.Join(places[:i+1], "."), strings.Join(places[i:], ".")
}

// epochs are those of the streams that the sessions are in, in the order of the
// sessions and with dots; an empty one is that of a session that is complete.
func (s *stream) epochs() string {
	epochs := make([]string, len(s.subscriptions))
	for i, v := range s.subscriptions {
		epochs[i] = v.epoch()
	}
	return strings.Join(epochs, ".")
}
