package projector

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Lister lists the root sessions of a tenant, the most recently saved first. Calls may overlap.
type Lister interface {
	// Sessions returns a page of the list. The page may have fewer sessions than Limit, or none, and still a Next. A session
	// that is saved between two pages moves to the top: a client that already has it does not get it again, and another client
	// finds it on the first page. Errors: ErrBadCursor for an invalid Before; chunk.ErrInvalid for an invalid tenant; those of
	// the store.
	Sessions(ctx context.Context, tenant string, q SessionQuery) (SessionPage, error)
}

// SessionQuery selects sessions. The zero SessionQuery is the first page of all sessions.
type SessionQuery struct {
	Status    fold.Status // only sessions with this status; "" for any
	AgentType string      // only sessions of this agent; "" for any
	Limit     int         // maximum number of sessions; 0 is DefaultPage, and at most MaxPage
	Before    string      // continue after this Next of a SessionPage; "" for the first page

	// Shows reports whether a session is part of the list. owner is the subject of its owner, "" if that is not known. It must return the same for the same
	// session in all pages of a list. nil shows all.
	Shows func(id, owner string) bool
}

// The default and the maximum number of sessions in a SessionPage.
const (
	DefaultPage = 50
	MaxPage     = 200
)

// SessionPage is a page of the list.
type SessionPage struct {
	Sessions []SessionInfo
	Next     string // Before of the next page, "" after the last one
}

// SessionInfo describes a session as of its stored head. The log may hold later records.
type SessionInfo struct {
	Session   chunk.Session
	Status    fold.Status
	AgentType string         // "" until a record contains it
	Owner     string         // subject of the owner, "" if it is not known; see fold.Snapshot
	Position  chunk.Position // of the stored head
	Created   time.Time      // of its first record
	StartedAt time.Time      // of its latest run; zero before the first
	SavedAt   time.Time      // of the head
}

// ErrBadCursor reports a Before that is not the Next of a SessionPage.
var ErrBadCursor = errors.New("invalid session list cursor")

// ExpiredHead is a session whose head was saved before a given time.
type ExpiredHead struct {
	Session chunk.Session
	SavedAt time.Time
	Status  fold.Status // of the saved snapshot
	Deleted bool        // the head is a tombstone without an expiry

	// RestartedAt is the time of the first record after the session was deleted, zero if it was not.
	RestartedAt time.Time
}
