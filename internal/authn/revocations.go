package authn

import (
	"errors"
	"sync"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/wait"
)

// Revocations are the revocations of all tenants, in memory. A Chain refuses what is in them. A reader fills them: it calls Apply for each revocation, and
// Loaded. The methods may be called concurrently.
type Revocations struct {
	mu       sync.RWMutex // guards the fields below
	loaded   bool
	tokens   map[revoked]times
	subjects map[revoked]times
	prune    int // number of entries at which those that have ended are removed

	changed chan struct{}
}

// revoked is a token or a subject of a tenant.
type revoked struct{ tenant, name string }

type times struct{ at, until time.Time }

// maxClockStep is how far the time that the server stores goes back when its leader changes: the clocks of two servers differ. A revocation of a subject that is
// lifted right after such a change is lifted.
const maxClockStep = 10 * time.Second

// minPrune is the smallest number of entries that are searched for those that have ended.
const minPrune = 1024

// NewRevocations returns Revocations that are not loaded.
func NewRevocations() *Revocations {
	return &Revocations{tokens: map[revoked]times{}, subjects: map[revoked]times{}, prune: minPrune, changed: make(chan struct{}, 1)}
}

// Apply adds a revocation, or removes the one of the same token or subject if r is Lifted. One that is older than the known one changes nothing: it comes from a
// bucket that was restored from an older copy, and tokens that the known one refuses would be accepted again.
func (s *Revocations) Apply(r revocation.Revocation) {
	s.apply(r)
	if r.Lifted {
		return
	}
	wait.Signal(s.changed)
}

func (s *Revocations) apply(r revocation.Revocation) {
	of, key := s.tokens, revoked{r.Tenant, r.TokenID}
	if r.TokenID == "" {
		of, key = s.subjects, revoked{r.Tenant, r.Subject}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch known, ok := of[key]; {
	case ok && r.At.Before(known.at) && (!r.Lifted || known.at.Sub(r.At) > maxClockStep):
		return
	case r.Lifted:
		delete(of, key)
		return
	}
	of[key] = times{r.At, r.Until}
	if len(s.tokens)+len(s.subjects) >= s.prune {
		s.removeEnded(time.Now())
	}
}

func (s *Revocations) removeEnded(now time.Time) {
	for _, of := range []map[revoked]times{s.tokens, s.subjects} {
		for key, t := range of {
			if !now.Before(t.until) {
				delete(of, key)
			}
		}
	}
	s.prune = max(minPrune, 2*(len(s.tokens)+len(s.subjects)))
}

// Loaded says that all revocations that existed when the process began were applied. Until then a Chain accepts no credential.
func (s *Revocations) Loaded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = true
}

// IsLoaded reports whether Loaded was called.
func (s *Revocations) IsLoaded() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.loaded
}

// Changed has a value after one or more revocations were added. It has one receiver, which then asks Revoked about the credentials that it holds.
func (s *Revocations) Changed() <-chan struct{} { return s.changed }

// Revoked reports whether the credential of a Grant is revoked. Of nil Revocations none is.
func (s *Revocations) Revoked(g *auth.Grant) bool {
	if s == nil {
		return false
	}
	token, subject := s.find(g)
	if token.until.IsZero() && subject.until.IsZero() {
		return false
	}
	now := time.Now()
	return now.Before(token.until) || now.Before(subject.until) && !g.IssuedAt.After(subject.at)
}

var errNotLoaded = errors.New("the revocations are not loaded yet")

// unrevoked refuses a Grant that is revoked, or that may be. nil Revocations refuse none.
func (s *Revocations) unrevoked(g *auth.Grant) (*auth.Grant, error) {
	switch {
	case s == nil:
		return g, nil
	case !s.IsLoaded():
		return nil, &UnavailableError{RetryAfter: time.Second, Cause: errNotLoaded}
	case s.Revoked(g):
		return nil, invalid(ReasonRevoked)
	}
	return g, nil
}

// find returns the revocations of the token and of the subject of a Grant, zero for none.
func (s *Revocations) find(g *auth.Grant) (token, subject times) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if g.TokenID != "" {
		token = s.tokens[revoked{g.Tenant, g.TokenID}]
	}
	return token, s.subjects[revoked{g.Tenant, g.Subject}]
}
