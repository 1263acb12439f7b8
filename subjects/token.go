package subjects

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// MaxToken is the maximum length of a token in bytes. Four of them with the prefix stay far below the 4 KiB control line at which the server closes a
// connection.
const MaxToken = 64

// TokenError reports a string that cannot be a tenant, a root, a session or an agent type. It is chunk.ErrInvalid.
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

// CheckToken checks whether tok may be a token of a subject: 1 to 64 of the characters A-Z a-z 0-9 _ -. It returns nil, or a *TokenError with the field.
func CheckToken(field, tok string) error {
	if problem := tokenProblem(tok); problem != "" {
		return newTokenError(field, tok, problem)
	}
	return nil
}

// CheckSession checks whether s can have a subject: each of its three names passes CheckToken. It returns nil, or a *TokenError for the first one that does
// not.
func CheckSession(s chunk.Session) error {
	if err := CheckToken("tenant", s.Tenant); err != nil {
		return err
	}
	if err := CheckToken("root", s.Root); err != nil {
		return err
	}
	return CheckToken("session", s.ID)
}

// tokenProblem returns why a token is invalid, "" if it is valid.
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
