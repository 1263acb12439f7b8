// Package revocation is a revoked credential: a token, or all credentials that a subject had.
package revocation

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/subjects"
)

// Lifetime is how long a revocation holds, and the largest age of a token: a token that is older is refused, so that none outlives its revocation.
const Lifetime = 30 * 24 * time.Hour

// Revocation refuses credentials of one tenant: those with TokenID, or those of Subject.
type Revocation struct {
	Tenant string

	// TokenID is the id (jti) of a token, and Subject a user or program. One of them is set.
	TokenID string
	Subject string

	By *chunk.Principal // the client that revoked; nil for an operator with access to NATS

	// At is when the server stored the revocation. That of a subject refuses the tokens that were issued until then, and credentials that do not say when they
	// were issued. All edges compare with this one time, and a repeated revocation never has an earlier one.
	At time.Time

	Until time.Time // when it ends

	Lifted bool // the revocation of the same token or subject has ended
}

// The limits of a Grant, in bytes.
const (
	MaxSubject = 255 // OpenID Connect Core, section 2
	MaxTokenID = 128
)

// ErrMalformed reports a stored revocation that cannot be read.
var ErrMalformed = errors.New("malformed revocation")

// ErrNoTicket reports a ticket that does not exist: it was never stored, has expired, or was spent. The bucket of revocations has the tickets too.
var ErrNoTicket = errors.New("no such ticket")

// Validate returns an error that wraps chunk.ErrInvalid for a revocation that no credential can match.
func (r Revocation) Validate() error {
	if err := subjects.CheckToken("tenant", r.Tenant); err != nil {
		return err
	}
	switch {
	case (r.TokenID == "") == (r.Subject == ""):
		return fmt.Errorf("%w: want the id of a token or a subject, and not both", chunk.ErrInvalid)
	case len(r.TokenID) > MaxTokenID || !utf8.ValidString(r.TokenID):
		return fmt.Errorf("%w: token id: want at most %d bytes of UTF-8", chunk.ErrInvalid, MaxTokenID)
	case len(r.Subject) > MaxSubject || !utf8.ValidString(r.Subject):
		return fmt.Errorf("%w: subject: want at most %d bytes of UTF-8", chunk.ErrInvalid, MaxSubject)
	}
	return nil
}

// Key returns the key of r in the bucket of credentials.
func (r Revocation) Key() (string, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	if r.TokenID != "" {
		return names.RevokedTokenKey(r.Tenant, r.TokenID)
	}
	return names.RevokedSubjectKey(r.Tenant, r.Subject)
}

// wire is the stored form. Times are those of the message.
type wire struct {
	Tenant  string  `json:"tenant"`
	TokenID string  `json:"tokenId,omitempty"`
	Subject string  `json:"subject,omitempty"`
	By      *byWire `json:"by,omitempty"`
	Lifted  bool    `json:"lifted,omitempty"`
}

type byWire struct {
	Subject string  `json:"subject"`
	Issuer  *string `json:"issuer,omitempty"`
}

// Encode returns the stored form of r.
func (r Revocation) Encode() ([]byte, error) {
	w := wire{Tenant: r.Tenant, TokenID: r.TokenID, Subject: r.Subject, Lifted: r.Lifted}
	if r.By != nil {
		w.By = &byWire{r.By.Subject, r.By.Issuer}
	}
	return json.Marshal(w)
}

// Decode reads the stored form of the revocation under a key, which the server has stored at a time. The error wraps ErrMalformed.
func Decode(key string, data []byte, stored time.Time) (Revocation, error) {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return Revocation{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	r := Revocation{Tenant: w.Tenant, TokenID: w.TokenID, Subject: w.Subject, At: stored, Until: stored.Add(Lifetime), Lifted: w.Lifted}
	if w.By != nil {
		r.By = &chunk.Principal{Subject: w.By.Subject, Issuer: w.By.Issuer}
	}
	switch own, err := r.Key(); {
	case err != nil:
		return Revocation{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	case own != key: // a user of another tenant may write its own keys only
		return Revocation{}, fmt.Errorf("%w: the key is that of another one", ErrMalformed)
	}
	return r, nil
}
