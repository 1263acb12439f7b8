package httpedge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
)

type sessionsPage struct {
	Sessions []json.RawMessage `json:"sessions"`
	Before   *string           `json:"before"`
	Scanned  int               `json:"scanned"`
	Through  int64             `json:"through,omitempty"`
}

// listedPage has the members of a snapshot, so that a view hides the same members in both.
type listedPage struct {
	cost

	Session struct {
		Tenant    string `json:"tenant"`
		Root      string `json:"root"`
		ID        string `json:"id"`
		AgentType string `json:"agentType,omitempty"`
		Owner     string `json:"owner,omitempty"`
	} `json:"session"`
	Status         string    `json:"status"`
	StreamSequence chunk.Seq `json:"streamSequence"`
	Created        int64     `json:"created"`
	StartedAt      *int64    `json:"began"`
	Timestamp      int64     `json:"timestamp"`

	Title       string       `json:"title,omitempty"`
	Runs        int64        `json:"runs"`
	Messages    int64        `json:"messages"`
	Usage       []modelUsage `json:"usage"`
	FailedCalls int64        `json:"failedCalls"`
	Error       *listedError `json:"error"`
	Waits       waits        `json:"waits"`

	Origin *listedOrigin `json:"origin,omitempty"` // of a fork
}

type listedOrigin struct {
	Session string `json:"session"`
}

// modelUsage is what the steps of one model used; without a model it is the rest.
type modelUsage struct {
	Model    string `json:"model,omitempty"`
	Provider string `json:"provider,omitempty"`
	Input    int64  `json:"input"`
	Output   int64  `json:"output"`
	Cached   int64  `json:"cached"`
	Written  int64  `json:"written"`
}

type listedError struct {
	Code  string `json:"code,omitempty"`
	Text  string `json:"text"`
	Tool  string `json:"tool,omitempty"`
	Group string `json:"group"`
	Time  int64  `json:"time,omitempty"`
}

type waits struct {
	Approvals   int64 `json:"approvals"`
	ClientTools int64 `json:"clientTools"`
}

func (e *Edge) asListed(l projector.SessionInfo) listedPage {
	sum := newBill(e.cfg.Prices)
	sum.add(l)
	p := listedPage{
		Status: string(l.Status), StreamSequence: l.Position.Seq, Created: l.Created.UnixMilli(), Timestamp: l.SavedAt.UnixMilli(),
		Title: l.Summary.Title, Runs: l.Summary.Runs, Messages: l.Summary.Messages, FailedCalls: l.Summary.FailedCalls, Usage: sum.usage(), cost: sum.cost(),
		Waits: waits{l.Summary.Approvals, l.Summary.ClientTools},
	}
	if f := l.Summary.Error; f != nil {
		p.Error = &listedError{Code: f.Code, Text: f.Text, Tool: f.Tool, Group: f.Group(), Time: f.At}
	}
	p.Session.Tenant, p.Session.Root, p.Session.ID, p.Session.AgentType = l.Session.Tenant, l.Session.Root, l.Session.ID, l.AgentType
	p.Session.Owner = l.Owner
	if l.Origin != "" {
		p.Origin = &listedOrigin{l.Origin}
	}
	if !l.StartedAt.IsZero() {
		began := l.StartedAt.UnixMilli()
		p.StartedAt = &began
	}
	return p
}

// listKey identifies a list for pageKey: which sessions it shows depends on the client.
type listKey struct{ tenant, query, shows string }

func newListKey(g *auth.Grant, of projector.SessionQuery) listKey {
	k := listKey{tenant: g.Tenant}
	if of.Shows != nil {
		k.shows = fmt.Sprintf("%q %t %q %q", g.Subject, g.Sessions.Own, g.Sessions.IDs, g.Sessions.Prefix)
	}
	of.Shows = nil
	k.query = fmt.Sprintf("%q %d %d %v", []string{string(of.Status), of.AgentType, of.Owner, of.Origin, of.ErrorGroup, of.Model, of.Text, of.Before}, of.Limit,
		[]int64{of.Since.UnixMilli(), of.Until.UnixMilli()}, []bool{of.Waiting, of.TitleOnly})
	return k
}

// sessions serves GET /v1/sessions: the root sessions of the tenant that the client may read, the last saved first. Its parameters are those of readListing.
func (e *Edge) sessions(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	q, g := readList(r.URL, append(listFilters, "status", "origin", "error", "model", "waiting", "q", "in", "limit", "before")...), httpkit.GrantOf(r.Context())
	name, listing := q.readView(g, e.cfg.Views), q.readListing()
	text := q.readSearch(&listing)
	q.readFilters(g, e.cfg.Views.Get(name), &listing)
	if text != "" && listing.Since.IsZero() && listing.Owner == "" && listing.AgentType == "" {
		q.refuse(codeBadParameter, "a search in messages needs a filter", "in: want since, owner or agentType with messages")
	}
	if q.problem != nil {
		return q.problem
	}
	if text != "" {
		return e.servePage(w, r, pageKey{view: name, query: searchKey{newListKey(g, listing), text}}, func(ctx context.Context) (page, *httpkit.Problem) {
			return e.searchMessages(ctx, g.Tenant, name, listing, text)
		})
	}
	// The list has no position: it is of the saved snapshots, which are older than the log anyway.
	return e.servePage(w, r, pageKey{view: name, query: newListKey(g, listing)}, func(ctx context.Context) (page, *httpkit.Problem) {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
		defer cancel()
		list, hold, p := e.listSessions(ctx, g.Tenant, listing)
		if p != nil {
			return page{hold: hold}.complete(p)
		}
		rows, p := e.listPage(name, list)
		return e.encodePage(rows, hold, p)
	})
}

// listSessions reads a page of the list.
func (e *Edge) listSessions(ctx context.Context, tenant string, of projector.SessionQuery) (projector.SessionPage, *reservation, *httpkit.Problem) {
	list, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (projector.SessionPage, error) {
		return e.cfg.Sessions.Sessions(ctx, tenant, of)
	})
	return list, hold, e.listProblem(err)
}

func (e *Edge) listProblem(err error) *httpkit.Problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, projector.ErrBadCursor):
		return badRequest(codeBadCursor, "there is no such place in the list", "before: want the one of a page")
	case errors.Is(err, httpkit.ErrBudget), errors.Is(err, projector.ErrReadLimit):
		return e.loadProblem(chunk.Session{}, err)
	}
	return e.notDone(unavailable, err, "session list failed")
}

func (e *Edge) listPage(view string, list projector.SessionPage) (sessionsPage, *httpkit.Problem) {
	page := sessionsPage{Sessions: make([]json.RawMessage, len(list.Sessions)), Scanned: list.Scanned}
	if !list.Through.IsZero() {
		page.Through = list.Through.UnixMilli()
	}
	if list.Next != "" {
		page.Before = &list.Next
	}
	for i, l := range list.Sessions {
		var p *httpkit.Problem
		if page.Sessions[i], p = e.shownListed(view, l); p != nil {
			return sessionsPage{}, p
		}
	}
	return page, nil
}

func (e *Edge) shownListed(view string, l projector.SessionInfo) (json.RawMessage, *httpkit.Problem) {
	text, err := json.Marshal(e.asListed(l))
	if err != nil {
		e.cfg.Log.Error("session encoding failed", "session", l.Session.String(), "error", err)
		return nil, httpkit.Internal
	}
	return e.shownRow(view, l.Session, text)
}

const (
	maxAgentType = 256      // bytes of ?agentType=, and of ?owner=
	maxBefore    = 16 << 10 // bytes of ?before=, which has a number for each partition
	maxText      = 400      // bytes of ?q=
)

// listFilters are the parameters of readFilters.
var listFilters = []string{"agentType", "owner", "since", "until", "view"}

// readListing parses the parameters of a list that are not those of readFilters.
//
//	?status=active     only sessions with this status
//	?origin=ID         only forks of this session
//	?error=GROUP       only sessions whose latest error is of this group
//	?model=NAME        only sessions that have used this model, one of the four with most tokens
//	?waiting=1         only sessions that wait for an approval or for the client
//	?q=TEXT            only sessions with this text in title, error, id or owner; with ?in=title in the title; with ?in=messages see readSearch
func (q *query) readListing() projector.SessionQuery {
	get := q.values.Get
	l := projector.SessionQuery{
		Limit: q.readCount("limit", defaultLimit, maxLimit), Status: fold.Status(get("status")), Before: get("before"),
		Origin: get("origin"), ErrorGroup: get("error"), Model: get("model"), Waiting: get("waiting") == "1", Text: get("q"), TitleOnly: get("in") == "title",
	}
	switch {
	case !slices.Contains([]string{"", "1"}, get("waiting")):
		q.refuse(codeBadParameter, "this is not a filter", "waiting: want 1")
	case !slices.Contains([]string{"", "title", "messages"}, get("in")):
		q.refuse(codeBadParameter, "there is nothing like this to search in", "in: want title or messages, or none for title, error, id and owner")
	case get("in") == "messages" && get("q") == "":
		q.refuse(codeBadParameter, "there is no text to search for", "q: want a text with in=messages")
	case len(l.Text) > maxText || len(l.ErrorGroup) > maxText || len(l.Model) > maxText || len(l.Origin) > maxText:
		q.refuse(codeBadParameter, "this text is too long", "q, error, model, origin: want at most 400 bytes")
	case l.Status != "" && !slices.Contains([]fold.Status{fold.Active, fold.Paused, fold.Ended, fold.Failed}, l.Status):
		q.refuse(codeBadParameter, "there is no such status", "status: want active, paused, ended or failed")
	case len(l.Before) > maxBefore:
		q.refuse(codeBadCursor, "there is no such place in the list", "before: want the one of a page")
	}
	return l
}

// readFilters parses the parameters that lists and their summary have in common, and refuses those by which a client would find out what the view hides.
//
//	?agentType=T           only sessions of this agent
//	?owner=SUBJECT         only sessions of this user
//	?since=TIME            only sessions that were saved last from this time on, in RFC 3339
//	?until=TIME            only sessions that were saved last before this time
func (q *query) readFilters(g *auth.Grant, v *view.Compiled, l *projector.SessionQuery) {
	l.AgentType, l.Owner = q.values.Get("agentType"), q.values.Get("owner")
	l.Since, l.Until = q.readTime("since"), q.readTime("until")
	if len(l.AgentType) > maxAgentType || len(l.Owner) > maxAgentType {
		q.refuse(codeBadParameter, "this is not the type of an agent or an owner", "agentType, owner: want at most 256 bytes")
	}
	everything := l.Text != "" && !l.TitleOnly
	for _, f := range []struct {
		name   string
		used   bool
		member []string
	}{
		{"agentType", l.AgentType != "", []string{"session", "agentType"}},
		{"owner", l.Owner != "", []string{"session", "owner"}},
		{"origin", l.Origin != "", []string{"origin"}},
		{"error", l.ErrorGroup != "", []string{"error"}},
		{"model", l.Model != "", []string{"usage"}},
		{"waiting", l.Waiting, []string{"waits"}},
		{"q", l.Text != "", []string{"title"}},
		{"q", everything, []string{"error"}},
		{"q", everything, []string{"session", "owner"}},
	} {
		if f.used && !v.Lists(f.member...) {
			q.refuse(codeBadParameter, "this view does not show what the filter compares", f.name+": want none")
		}
	}
	if !g.Sessions.All {
		l.Shows = g.AllowsSession
	}
}

func (q *query) readTime(name string) (at time.Time) {
	if text := q.values.Get(name); text != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			q.refuse(codeBadParameter, "this is not a time", name+": want one such as 2026-11-30T14:00:00Z")
		}
	}
	return at
}
