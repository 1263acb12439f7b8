package httpedge

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/projector"
)

// keepSummary is how long a summary serves clients with the same rights: a page asks again and again, and each summary reads up to projector.MaxScan heads.
const keepSummary = 10 * time.Second

// maxSummaries bounds the summaries that an edge keeps.
const maxSummaries = 64

// sessionsSummary sums up the sessions that were saved last. Members that a view hides are nil.
type sessionsSummary struct {
	cost

	Sessions int            `json:"sessions"`
	Complete bool           `json:"complete"`          // these are all sessions of the query
	Through  int64          `json:"through,omitempty"` // otherwise those that were saved after this time
	ByStatus map[string]int `json:"byStatus"`
	Waiting  *int           `json:"waiting,omitempty"` // sessions that wait for an approval or for the client
	ByAgent  []agentCount   `json:"byAgent,omitempty"` // those with most sessions
	Usage    []modelUsage   `json:"usage,omitempty"`
	Errors   []errorGroup   `json:"errors,omitempty"` // those of most sessions
}

type agentCount struct {
	AgentType string `json:"agentType"`
	Sessions  int    `json:"sessions"`
}

// errorGroup are the sessions whose latest error is of one group.
type errorGroup struct {
	Group  string   `json:"group"`
	Code   string   `json:"code,omitempty"`
	Tool   string   `json:"tool,omitempty"`
	Text   string   `json:"text"`
	Count  int      `json:"count"`
	First  int64    `json:"first,omitempty"`
	Last   int64    `json:"last,omitempty"`
	Latest []string `json:"latest"` // ids of sessions
}

// maxLatest bounds errorGroup.Latest.
const maxLatest = 3

// summary serves GET /v1/sessions/summary: totals of the sessions that the client may read, see readFilters.
func (e *Edge) summary(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	q, g := readList(r.URL, listFilters...), httpkit.GrantOf(r.Context())
	name, of := q.readView(g, e.cfg.Views), projector.SessionQuery{Limit: projector.MaxScan}
	q.readFilters(g, e.cfg.Views.Get(name), &of)
	if q.problem != nil {
		return q.problem
	}
	key := pageKey{view: name, query: summaryKey{newListKey(g, of)}}
	return e.servePage(w, r, key, func(ctx context.Context) (page, *httpkit.Problem) {
		if kept, ok := e.summaries.Get(key); ok && time.Now().Before(kept.until) {
			return page{text: kept.text}, nil
		}
		ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
		defer cancel()
		hold, err := e.reads.reserveSummary(ctx)
		if p := e.loadProblem(chunk.Session{}, err); p != nil {
			return page{}, p
		}
		list, read, p := e.listSessions(ctx, g.Tenant, of)
		read.release()
		if p != nil {
			return page{hold: hold}.complete(p)
		}
		made, p := e.encodePage(e.sumUp(name, list), hold, nil)
		if p == nil {
			e.summaries.Add(key, keptSummary{made.text, time.Now().Add(keepSummary)})
		}
		return made, p
	})
}

// summaryKey distinguishes the page of a summary from that of a list.
type summaryKey struct{ listKey }

func (e *Edge) sumUp(name string, list projector.SessionPage) sessionsSummary {
	v := e.cfg.Views.Get(name)
	s := sessionsSummary{Sessions: len(list.Sessions), Complete: list.Next == "", ByStatus: make(map[string]int)}
	if !s.Complete {
		s.Through = list.Through.UnixMilli()
	}
	agents, errors, sum, waiting := make(map[string]int), make(map[string]*errorGroup), newBill(e.cfg.Prices), 0
	for _, l := range list.Sessions {
		s.ByStatus[string(l.Status)]++
		agents[l.AgentType]++
		sum.add(l)
		if l.Summary.Approvals+l.Summary.ClientTools > 0 {
			waiting++
		}
		if l.Summary.Error != nil {
			addError(errors, l)
		}
	}
	if v.Lists("session", "agentType") {
		for agent, n := range agents {
			s.ByAgent = append(s.ByAgent, agentCount{agent, n})
		}
		slices.SortFunc(s.ByAgent, func(a, b agentCount) int { return cmp.Or(b.Sessions-a.Sessions, cmp.Compare(a.AgentType, b.AgentType)) })
		s.ByAgent = s.ByAgent[:min(len(s.ByAgent), maxListed)]
	}
	if v.Lists("usage") {
		s.Usage, s.cost = sum.usage(), sum.cost()
	}
	if v.Lists("waits") {
		s.Waiting = &waiting
	}
	if v.Lists("error") {
		groups := slices.SortedFunc(maps.Values(errors), func(a, b *errorGroup) int {
			return cmp.Or(b.Count-a.Count, cmp.Compare(b.Last, a.Last), cmp.Compare(a.Group, b.Group))
		})
		for _, g := range groups[:min(len(groups), maxListed)] {
			s.Errors = append(s.Errors, *g)
		}
	}
	return s
}

// addError counts the latest error of a session. The sessions come in the order of the list.
func addError(groups map[string]*errorGroup, l projector.SessionInfo) {
	f := l.Summary.Error
	id := f.Group()
	g := groups[id]
	if g == nil {
		g = &errorGroup{Group: id, Code: f.Code, Tool: f.Tool, Text: f.Pattern(), First: f.At}
		groups[id] = g
	}
	g.Count++
	g.First, g.Last = min(g.First, f.At), max(g.Last, f.At)
	if len(g.Latest) < maxLatest {
		g.Latest = append(g.Latest, l.Session.ID)
	}
}

// keptSummary is a summary that was made in the last keepSummary.
type keptSummary struct {
	text  []byte
	until time.Time
}
