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
	Owner     string      // only sessions of this subject; "" for any

	Since, Until time.Time // only sessions that were saved last from Since on, and before Until; zero for any

	Model      string // only sessions whose Summary names this model; "" for any
	Waiting    bool   // only sessions that wait for an approval or for the client
	Origin     string // only forks of this session; "" for any
	ErrorGroup string // only sessions whose latest error has this fold.LatestError.Group; "" for any

	// Text is contained, in upper or lower case and in any Unicode normal form, in the title, the latest error, the id or the owner, or with TitleOnly in the title; "" for any.
	// A session with this id is the first one of the list, unless there is TitleOnly or Shows.
	Text      string
	TitleOnly bool

	Limit  int    // maximum number of sessions; 0 is DefaultPage, and at most MaxScan
	Before string // continue after this Next of a SessionPage; "" for the first page

	// Shows reports whether a session is part of the list. owner is the subject of its owner, "" if that is not known. It must return the same for the same
	// session in all pages of a list. nil shows all.
	Shows func(id, owner string) bool

	// Select is called for each session that matches, in the order of the list, and reports whether it is on the page. If more is false, the page ends before the
	// session, and Next continues with it. nil selects all.
	Select func(s SessionInfo) (selected, more bool)
}

// DefaultPage is the default number of sessions in a SessionPage, and MaxScan about the maximum number of sessions that are read for one.
const (
	DefaultPage = 50
	MaxScan     = 20_000
)

// SessionPage is a page of the list.
type SessionPage struct {
	Sessions []SessionInfo
	Next     string // Before of the next page, "" after the last one
	Scanned  int    // sessions that were read for the page

	// Through is the time of a save: all sessions that match and were saved last after it are on this page or an earlier one. It is zero if there are no others.
	Through time.Time
}

// SessionInfo describes a session as of its stored head. The log may hold later records.
type SessionInfo struct {
	Session   chunk.Session
	Status    fold.Status
	AgentType string         // "" until a record contains it
	Owner     string         // subject of the owner, "" if it is not known; see fold.Snapshot
	Origin    string         // the session that a fork continues, "" for a session that is not a fork
	Position  chunk.Position // of the stored head
	Created   time.Time      // of its first record
	StartedAt time.Time      // of its latest run; zero before the first
	SavedAt   time.Time      // of the head
	Summary   fold.Summary
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
