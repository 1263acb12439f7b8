package projector

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Lister lists the root sessions of a tenant, those first whose head was saved
// last. Calls may overlap.
type Lister interface {
	// Sessions is a page of the list. It may have fewer sessions than Limit, or
	// none, and still a Next. A session that is saved while somebody pages is on
	// top from then on: who has had it does not get it again, and who has not
	// finds it on the first page. Errors: ErrCursor for a Before that is none;
	// chunk.ErrInvalid for a tenant that is none; those of the store.
	Sessions(ctx context.Context, tenant string, q Query) (Page, error)
}

// Query says which sessions to list. The zero Query is the first page of all.
type Query struct {
	Status    fold.Status // only those that stand so; "" for any
	AgentType string      // only those of this agent; "" for any
	Limit     int         // at most so many; 0 is 50, and MaxPage the most
	Before    string      // go on behind this Next of a Page; "" for the beginning
}

// The sizes of a Page.
const (
	DefaultPage = 50
	MaxPage     = 200
)

// Page is a piece of the list.
type Page struct {
	Sessions []Listed
	Next     string // Before of the next page, "" at the end
}

// Listed is a session as its stored head has it. The log may be further.
type Listed struct {
	Session   chunk.Session
	Status    fold.Status
	AgentType string         // "" until a record said so
	Position  chunk.Position // of the stored head
	Created   time.Time      // of its first record
	Began     time.Time      // of its latest run; zero before the first
	Saved     time.Time      // of the head
}

// ErrCursor reports a Before that no Page has given out.
var ErrCursor = errors.New("this is no cursor of the list of sessions")

// Aged is a session whose head was saved long ago.
type Aged struct {
	Session chunk.Session
	Saved   time.Time
	Deleted bool // it is a grave that does not expire yet
}
