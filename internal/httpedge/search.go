package httpedge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/search"
	"github.com/tailrace/tailrace/projector/fold"
)

// The bounds of a search in messages. It ends at the first one, with the place in the list at which the next one continues.
const (
	maxSearched    = 2000     // sessions
	maxSearchBytes = 64 << 20 // of messages, which the last page of messages may exceed
	searchTime     = 3 * time.Second

	maxSearches = 2 // of an edge at a time; a tenant has one of them, see httpkit.Budget
)

// readSearch returns the text to search for in messages, "" if l has the text.
//
//	?q=TEXT&in=messages    only sessions with this text in a message that the view shows
func (q *query) readSearch(l *projector.SessionQuery) (text string) {
	if q.values.Get("in") == "messages" {
		text, l.Text = l.Text, ""
	}
	return text
}

// searchKey distinguishes the page of a search from that of a list.
type searchKey struct {
	listKey

	text string
}

// searchMessages reads a page of the list of the sessions with a text in their messages.
func (e *Edge) searchMessages(ctx context.Context, tenant, view string, of projector.SessionQuery, text string) (page, *httpkit.Problem) {
	waiting, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
	defer cancel()
	client := httpkit.ClientOf(ctx)
	if e.searches.Take(waiting, client, 1) != nil {
		return page{}, searching
	}
	defer e.searches.Return(client, 1)
	hold, err := e.reads.reserveTree(waiting) // the messages of each session are read within the budget of other pages
	if p := e.loadProblem(chunk.Session{}, err); p != nil {
		return page{}, p
	}
	reading, end := context.WithTimeout(ctx, searchTime)
	defer end()
	s := &messageSearch{Edge: e, view: view, text: search.For(text)}
	of.Select = func(l projector.SessionInfo) (found, more bool) { return s.selects(reading, l.Session) }
	listing, stop := context.WithTimeout(ctx, searchTime+e.cfg.AttachTimeout) // what was found when the time is over is the page
	defer stop()
	list, err := e.cfg.Sessions.Sessions(listing, tenant, of)
	p := e.listProblem(err)
	if p == nil {
		p = s.problem
	}
	if p != nil {
		return page{hold: hold}.complete(p)
	}
	list.Scanned = s.sessions
	rows, p := e.listPage(view, list)
	return e.encodePage(rows, hold, p)
}

// messageSearch is one search.
type messageSearch struct {
	*Edge

	view     string
	text     search.Text
	sessions int              // that were searched
	bytes    int              // of messages that were read
	problem  *httpkit.Problem // instead of the page
}

// selects implements projector.SessionQuery.Select. A session that is not searched completely is the first one of the next search; if it was the first one of this search, its latest messages
// are all that is searched of it. Otherwise no search would get past it.
func (s *messageSearch) selects(ctx context.Context, of chunk.Session) (found, more bool) {
	if s.problem != nil || s.sessions == maxSearched || s.bytes >= maxSearchBytes || s.sessions > 0 && ctx.Err() != nil {
		return false, false
	}
	found, err := s.finds(ctx, of)
	tooLong := s.bytes > 0 && (errors.Is(err, errSearchEnd) || ctx.Err() != nil)
	switch {
	case err == nil, isUnreadable(err), s.sessions == 0 && tooLong:
		s.sessions++
		return found, true
	case s.sessions == 0:
		s.problem = s.loadProblem(of, err)
	}
	return false, false
}

// isUnreadable reports whether an error of a session would be that of each later search, too: it was deleted after its head was read, has lost messages, or has a page that is larger than
// the memory for pages.
func isUnreadable(err error) bool {
	_, truncated := errors.AsType[*chunk.TruncatedError](err)
	return truncated || errors.Is(err, chunk.ErrUnknownSession) || errors.Is(err, chunk.ErrUnknownMessage) || errors.Is(err, fold.ErrInconsistent) ||
		errors.Is(err, projector.ErrReadLimit)
}

var errSearchEnd = errors.New("search reads too much")

// finds reads the messages of a session in pages, the latest ones first, until one of them has the text.
func (s *messageSearch) finds(ctx context.Context, of chunk.Session) (bool, error) {
	for q := (fold.PageQuery{Limit: defaultLimit, Parts: maxParts / 10, Partial: true}); ; {
		snap, hold, err := readWithin(ctx, s.reads, func(ctx context.Context) (aisdk.FrontendSnapshot, error) { return s.read(ctx, of, q) })
		if errors.Is(err, projector.ErrReadLimit) && q.Limit > 1 {
			q.Limit = 1
			continue
		}
		if err != nil {
			return false, err
		}
		found := s.contains(of, bodies(snap.Messages))
		hold.release()
		switch {
		case found, snap.Before == nil, *snap.Before == "":
			return found, nil
		case s.bytes >= maxSearchBytes || s.problem != nil:
			return false, errSearchEnd
		}
		q.Before = *snap.Before
	}
}

// contains reports whether what the view shows of messages has the text.
func (s *messageSearch) contains(of chunk.Session, messages []json.RawMessage) bool {
	for _, m := range messages {
		s.bytes += len(m)
	}
	shown, p := s.shownMessages(s.view, of, messages)
	s.problem = p
	return slices.ContainsFunc(shown, func(m json.RawMessage) bool { return s.text.InMessage(m) })
}
