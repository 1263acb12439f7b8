package names

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/idtoken"
)

// MaxToken is that of package subjects.
const MaxToken = idtoken.Max

// TokenError reports a string that cannot be a tenant, the id of a session or an agent type. It is chunk.ErrInvalid.
type TokenError struct {
	Field   string // the purpose of the token: "tenant", "session", …
	Token   string // the input, truncated
	Problem string // why it is invalid
}

// Error returns the field, the input and the expected value.
func (e *TokenError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, e.Token, e.Problem)
}

// Is makes a TokenError a chunk.ErrInvalid.
func (e *TokenError) Is(target error) bool { return target == chunk.ErrInvalid }

// valid returns the text of a subject, a filter or a key, or the first error of the checks of its tokens.
func valid(text string, checks ...error) (string, error) {
	for _, err := range checks {
		if err != nil {
			return "", err
		}
	}
	return text, nil
}

// CheckToken checks whether tok may be a token of a subject: 1 to 64 of the characters A-Z a-z 0-9 _ -. It returns nil, or a *TokenError with the field.
func CheckToken(field, tok string) error {
	if problem := idtoken.Problem(tok); problem != "" {
		return newTokenError(field, tok, problem)
	}
	return nil
}

// CheckID is that of package subjects. The error is a *TokenError.
func CheckID(field, id string) error {
	if idtoken.Problem(id) == "" {
		return nil
	}
	switch {
	case id == "":
		return newTokenError(field, id, "is empty, want 1 to 64 characters of a URI")
	case len(id) > MaxToken:
		return newTokenError(field, id, fmt.Sprintf("has %d bytes, want at most %d", len(id), MaxToken))
	}
	for segment := range strings.SplitSeq(id, "/") {
		if segment == "." || segment == ".." {
			return newTokenError(field, id, fmt.Sprintf("has the segment %q, which cannot be in the path of a URL", segment))
		}
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c >= 0x7F || strings.IndexByte("\"*<>\\^`{|}", c) >= 0 {
			return newTokenError(field, id, fmt.Sprintf("has %q at byte %d, want only characters of a URI", c, i))
		}
	}
	return nil
}

// CheckSession checks whether s can have a subject: its tenant passes CheckToken, its root and its id pass CheckID. It returns nil, or a *TokenError for the
// first one that does not.
func CheckSession(s chunk.Session) error {
	if err := CheckToken("tenant", s.Tenant); err != nil {
		return err
	}
	if err := CheckID("root", s.Root); err != nil {
		return err
	}
	return CheckID("session", s.ID)
}

// treeTokens are the tokens <tenant>.<root> of s.
func treeTokens(s chunk.Session) string { return s.Tenant + "." + idtoken.Of(s.Root) }

// sessionTokens are the tokens <tenant>.<root>.<session> of s.
func sessionTokens(s chunk.Session) string {
	root := idtoken.Of(s.Root)
	id := root
	if !s.IsRoot() {
		id = idtoken.Of(s.ID)
	}
	return s.Tenant + "." + root + "." + id
}

// parseSession is the inverse of sessionTokens for three tokens. The error is a *TokenError.
func parseSession(tenant, root, id string) (s chunk.Session, err error) {
	s.Tenant = tenant
	if err = CheckToken("tenant", tenant); err != nil {
		return s, err
	}
	if s.Root, err = parseID("root", root); err != nil {
		return s, err
	}
	if s.ID = s.Root; id != root {
		if s.ID, err = parseID("session", id); err != nil {
			return s, err
		}
	}
	return s, nil
}

// parseID returns the id of a session whose token is tok. The error is a *TokenError.
func parseID(field, tok string) (string, error) {
	if !strings.HasPrefix(tok, idtoken.Mark) { // the hot path: a token that is not escaped is an id
		return tok, CheckToken(field, tok)
	}
	id, problem := idtoken.Parse(tok)
	if problem != "" {
		return "", newTokenError(field, tok, problem)
	}
	return id, CheckID(field, id)
}

// newTokenError keeps only the start of the input: errors are logged and sent in responses, and the input can have any length.
func newTokenError(field, tok, problem string) error {
	return &TokenError{Field: field, Token: clip(tok), Problem: problem}
}

func clip(s string) string {
	const maxExcerpt = 80
	if len(s) <= maxExcerpt {
		return s
	}
	return s[:maxExcerpt] + "…"
}
