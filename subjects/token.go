package subjects

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// MaxToken is the longest token in bytes. Four of them with the prefix stay far
// below the 4 KiB control line at which the server closes a connection.
const MaxToken = 64

// TokenError says why a string cannot be a tenant, a root, a session or an
// agent type. It is chunk.ErrInvalid: the caller sent something wrong, and
// nothing was done.
type TokenError struct {
	Field   string // what the token was meant to be: "tenant", "session", …
	Token   string // what came, cut after a few bytes
	Problem string // what is wrong with it
}

// Error names the field, what came and what would have been right.
func (e *TokenError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, e.Token, e.Problem)
}

// Is makes a TokenError a chunk.ErrInvalid.
func (e *TokenError) Is(target error) bool { return target == chunk.ErrInvalid }

// CheckToken reports whether tok may be a token of a subject: 1 to 64 of the
// characters A-Z a-z 0-9 _ -. The field is for the error, a *TokenError.
func CheckToken(field, tok string) error {
	if problem := tokenProblem(tok); problem != "" {
		return newTokenError(field, tok, problem)
	}
	return nil
}

// CheckSession reports whether s can have a subject: each of its three names
// passes CheckToken. The error is a *TokenError for the first that does not.
func CheckSession(s chunk.Session) error {
	if err := CheckToken("tenant", s.Tenant); err != nil {
		return err
	}
	if err := CheckToken("root", s.Root); err != nil {
		return err
	}
	return CheckToken("session", s.ID)
}

// tokenProblem is "" for a good token.
func tokenProblem(tok string) string {
	switch {
	case tok == "":
		return "is empty, want 1 to 64 of A-Z a-z 0-9 _ -"
	case len(tok) > MaxToken:
		return fmt.Sprintf("has %d bytes, want at most %d", len(tok), MaxToken)
	}
	for i := range len(tok) {
		if !isTokenByte(tok[i]) {
			return fmt.Sprintf("has %q at byte %d, want only A-Z a-z 0-9 _ -", tok[i], i)
		}
	}
	return ""
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// newTokenError keeps only the beginning of the input: errors go into logs and responses, and the input can have any length.
func newTokenError(field, tok, problem string) error {
	return &TokenError{Field: field, Token: clip(tok), Problem: problem}
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
