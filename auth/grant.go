package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/subjects"
)

// Scope is a set of rights. No right implies another one: a Grant that may chat and read has both.
type Scope uint16

// The rights. Their names in tokens are the lower-case words: "read chat".
const (
	ScopeRead   Scope = 1 << iota // read streams, snapshots, messages and lists
	ScopeChat                     // send messages, start runs
	ScopeAnswer                   // answer calls and approvals
	ScopeStop                     // interrupt and abort runs
	ScopeIngest                   // write chunks
	ScopeDelete                   // delete sessions
	ScopeAdmin                    // mint and revoke tokens
	ScopeFork                     // fork sessions: continue them from an earlier point with other results, state or agent
)

// AllScopes has every right.
const AllScopes = ScopeRead | ScopeChat | ScopeAnswer | ScopeStop | ScopeIngest | ScopeDelete | ScopeAdmin | ScopeFork

var scopeNames = [...]string{"read", "chat", "answer", "stop", "ingest", "delete", "admin", "fork"}

// ParseScope returns the rights that text names, separated by single spaces. It returns an error for an empty text and for an unknown name.
func ParseScope(text string) (Scope, error) {
	var set Scope
	for name := range strings.SplitSeq(text, " ") {
		i := slices.Index(scopeNames[:], name)
		if i < 0 {
			return 0, fmt.Errorf("scope %.32q: want some of %s", name, AllScopes)
		}
		set |= 1 << i
	}
	return set, nil
}

// String returns the names of the rights, separated by spaces.
func (s Scope) String() string {
	var names []string
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// Sessions is a set of root sessions of a tenant: those that at least one field selects. The zero Sessions is empty. A sub-agent belongs to its root.
type Sessions struct {
	All    bool     // every session of the tenant
	Own    bool     // sessions that the subject of the Grant started
	IDs    []string // at most MaxSessionIDs
	Prefix string   // sessions whose id begins with it; "" selects none. End it with a separator: "u1" also selects "u12".
}

// MaxSessionIDs bounds Sessions.IDs.
const MaxSessionIDs = 16

// AnyView in Grant.Views allows every view.
const AnyView = "*"

// Grant is what a verified credential allows. Several requests share one Grant: it must not be modified.
type Grant struct {
	Tenant  string // token of package subjects
	Subject string // user or program, unique in Issuer and not empty; becomes the owner of the sessions that it starts
	Scopes  Scope

	Sessions Sessions

	// Views names the views that may be chosen; the first one is used unless a request chooses another. Empty allows the default view of the edge and no
	// other, so that a token without views does not open the views of operators. AnyView allows all.
	Views []string

	// ExpiresAt is the time from which the credential is refused: the exp of a token and the leeway. Zero is never.
	ExpiresAt time.Time

	// IssuedAt is when the credential was issued: the iat of a token. Zero is not known.
	IssuedAt time.Time

	TokenID string // jti of the token, "" for a credential without one
	Issuer  string // iss of the token, "" for a credential that is not a token
}

// Allows reports whether g has all rights of s. It is false for no right, so that a route without a policy is denied.
func (g *Grant) Allows(s Scope) bool {
	return s != 0 && g.Scopes&s == s
}

// AllowsSession reports whether g covers a root session of its tenant. owner is the subject that started the session, "" if it is not known, which is never
// an own session.
func (g *Grant) AllowsSession(id, owner string) bool {
	s := g.Sessions
	return subjects.CheckID("session", id) == nil &&
		(s.All || s.Own && owner != "" && owner == g.Subject || slices.Contains(s.IDs, id) || s.Prefix != "" && strings.HasPrefix(id, s.Prefix))
}

// View returns the view for a request: requested if g allows it, for "" the first one of g. The result "" is the default view of the edge. ok is false for a
// view that g does not allow.
func (g *Grant) View(requested string) (name string, ok bool) {
	if requested == "" {
		if len(g.Views) > 0 && g.Views[0] != AnyView {
			return g.Views[0], true
		}
		return "", true
	}
	if requested != AnyView && (slices.Contains(g.Views, requested) || slices.Contains(g.Views, AnyView)) {
		return requested, true
	}
	return "", false
}

// Expired reports whether g is not valid any more at a time.
func (g *Grant) Expired(at time.Time) bool {
	return !g.ExpiresAt.IsZero() && !at.Before(g.ExpiresAt)
}

// Check returns an error for a Grant that no authenticator may return: tenant and sessions are tokens of package subjects, the subject is printable text of
// at most 255 bytes. The error contains the value only where it is a token or its beginning.
func (g *Grant) Check() error {
	if err := subjects.CheckToken("tenant", g.Tenant); err != nil {
		return err
	}
	if err := checkText("subject", g.Subject, maxSubject); err != nil {
		return err
	}
	if g.Scopes&^AllScopes != 0 {
		return fmt.Errorf("scopes: %#x has unknown bits", uint16(g.Scopes))
	}
	if err := g.Sessions.check(); err != nil {
		return err
	}
	for _, name := range g.Views {
		if err := checkText("view", name, maxView); err != nil {
			return err
		}
	}
	if g.TokenID != "" {
		return checkText("token id", g.TokenID, maxTokenID)
	}
	return nil
}

func (s Sessions) check() error {
	if len(s.IDs) > MaxSessionIDs {
		return fmt.Errorf("sessions: %d ids, want at most %d", len(s.IDs), MaxSessionIDs)
	}
	for _, id := range s.IDs {
		if err := subjects.CheckID("session", id); err != nil {
			return err
		}
	}
	if s.Prefix == "" {
		return nil
	}
	return subjects.CheckID("prefix of sessions", s.Prefix)
}

const (
	maxSubject = revocation.MaxSubject
	maxView    = 64
	maxTokenID = revocation.MaxTokenID
)

var errText = errors.New("want printable UTF-8 without control and format characters")

// checkText accepts what can be shown in a log, a list and a terminal without changing how the text around it looks.
func checkText(field, text string, limit int) error {
	switch {
	case text == "":
		return fmt.Errorf("%s: is empty", field)
	case len(text) > limit:
		return fmt.Errorf("%s: %d bytes, want at most %d", field, len(text), limit)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s: %w", field, errText)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("%s: %w", field, errText)
		}
	}
	return nil
}
