package authn

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/auth"
)

// Covers reports whether g allows everything that other allows, at every time: the rule for a credential that makes another one. Token ids and issuers do not
// count, and the subject only for own sessions.
func Covers(g, other *auth.Grant) bool {
	return g.Tenant == other.Tenant && other.Scopes&^g.Scopes == 0 && coversSessions(g, other) && coversViews(g.Views, other.Views) && !endsBefore(g, other)
}

// coversSessions compares sets by how they are written: a prefix covers ids that begin with it, ids do not cover a prefix. Own sessions are covered by all
// sessions, and by own ones of the same subject. They are not covered by a prefix, because a subject can start sessions with any id.
func coversSessions(g, other *auth.Grant) bool {
	mine, theirs := g.Sessions, other.Sessions
	if mine.All {
		return true
	}
	hasPrefix := func(id string) bool { return mine.Prefix != "" && strings.HasPrefix(id, mine.Prefix) }
	switch {
	case theirs.All,
		theirs.Own && (!mine.Own || g.Subject != other.Subject),
		theirs.Prefix != "" && !hasPrefix(theirs.Prefix):
		return false
	}
	return !slices.ContainsFunc(theirs.IDs, func(id string) bool { return !hasPrefix(id) && !slices.Contains(mine.IDs, id) })
}

// coversViews compares names. No views at all is the default view of the edge, whose name a Grant does not know: it is covered by no views and by all views.
func coversViews(mine, theirs []string) bool {
	if slices.Contains(mine, auth.AnyView) {
		return true
	}
	if len(theirs) == 0 || len(mine) == 0 {
		return len(theirs) == len(mine)
	}
	return !slices.ContainsFunc(theirs, func(name string) bool { return !slices.Contains(mine, name) })
}

func endsBefore(g, other *auth.Grant) bool {
	return !g.ExpiresAt.IsZero() && (other.ExpiresAt.IsZero() || other.ExpiresAt.After(g.ExpiresAt))
}
