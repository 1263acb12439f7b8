package httpedge

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// The limits of a tree: levels below its root, and sessions in total.
const (
	maxTreeDepth    = 8
	maxTreeSessions = 200
)

// treePage is a session with its sub-agents, each below the session that called it.
type treePage struct {
	Session  string      `json:"session"`
	Type     string      `json:"type,omitempty"`
	Status   string      `json:"status"`
	Children []*treeNode `json:"children"`
}

// treeNode is a sub-agent as recorded by its caller. Truncated means that its own sub-agents were not read, because of the limits.
type treeNode struct {
	Session   string          `json:"session"`
	Type      string          `json:"type,omitempty"`
	CallID    string          `json:"callId"`
	Status    string          `json:"status"`
	Result    json.RawMessage `json:"result,omitempty"`
	Children  []*treeNode     `json:"children"`
	Truncated bool            `json:"more,omitempty"`
}

// tree serves GET /v1/sessions/{id}/tree: the sub-agents of a session at all levels, including those that are running in the present turn.
func (e *Edge) tree(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	s, name, p := e.readPage(r.Context(), readQuery(r.URL, "root", "view"), id)
	if p != nil {
		return p
	}
	key := pageKey{session: s, view: name, query: maxTreeSessions}
	if p := e.endOfLog(r.Context(), &key); p != nil {
		return p
	}
	return e.servePage(w, r, key, func(ctx context.Context) (page, *httpkit.Problem) {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout) // for all of it
		defer cancel()
		hold, err := e.reads.reserveTree(ctx)
		if err != nil {
			return page{}, e.loadProblem(s, err)
		}
		tree, p := e.readTree(ctx, name, s)
		return e.encodePage(tree, hold, p)
	})
}

// endOfLog sets the position of a page of several sessions, which is the end of the log.
func (e *Edge) endOfLog(ctx context.Context, key *pageKey) *httpkit.Problem {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
	defer cancel()
	tip, err := e.hub.Tip(ctx, key.session)
	key.seq, key.epoch = tip.Seq, tip.StreamEpoch
	return e.loadProblem(key.session, err)
}

// readTree reads level by level, so that the limits omit the deepest sessions.
func (e *Edge) readTree(ctx context.Context, view string, s chunk.Session) (treePage, *httpkit.Problem) {
	top, p := e.readFamily(ctx, view, s)
	if p != nil {
		return treePage{}, p
	}
	page := treePage{Session: s.ID, Type: top.Session.AgentType, Status: top.Status, Children: top.Children}
	seen := map[string]bool{s.ID: true}
	level := page.Children
	for depth := 1; len(level) > 0; depth++ {
		var next []*treeNode
		for _, node := range level {
			node.Children = []*treeNode{}
			if seen[node.Session] || subjects.CheckID("session", node.Session) != nil {
				continue // the tree has it already, with its sub-agents, or it is not a session
			}
			if depth >= maxTreeDepth || len(seen) >= maxTreeSessions {
				node.Truncated = true
				continue
			}
			seen[node.Session] = true
			child, p := e.readFamily(ctx, view, s.Child(node.Session))
			if p == noStream {
				continue // it has no records yet
			}
			if p != nil {
				return treePage{}, p
			}
			node.Children = child.Children
			next = append(next, node.Children...)
		}
		level = next
	}
	return page, nil
}

// sessionTree has the parts of a page about the session and its children. It is read from the page after a view was applied, so that a tree does not contain
// what the view hides.
type sessionTree struct {
	Status  string `json:"status"`
	Session struct {
		AgentType string `json:"agentType"`
	} `json:"session"`
	Children []*treeNode `json:"children"`
}

func (e *Edge) readFamily(ctx context.Context, view string, s chunk.Session) (sessionTree, *httpkit.Problem) {
	snap, hold, p := e.load(ctx, s, fold.PageQuery{Partial: true})
	if p != nil {
		return sessionTree{}, p
	}
	defer hold.release()
	page, p := e.shownPage(view, s, snap.AppendJSON(nil))
	if p != nil {
		return sessionTree{}, p
	}
	f := sessionTree{Children: []*treeNode{}}
	if err := json.Unmarshal(page, &f); err != nil {
		e.cfg.Log.Error("snapshot JSON malformed", "session", s.String(), "error", err)
		return sessionTree{}, httpkit.Internal
	}
	return f, nil
}
