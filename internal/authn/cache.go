package authn

import (
	"crypto/sha256"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tailrace/tailrace/auth"
)

// cache keeps the Grants of verified tokens, by the hash of all bytes of the token, until they expire. Only valid tokens get into it, so made-up ones can
// neither fill it nor evict others. A full cache replaces the token that was not used for the longest time; that one is verified again.
type cache struct {
	*lru.Cache[tokenHash, entry]
}

type tokenHash = [sha256.Size]byte

// entry is a Grant with what it was verified with: it counts while the issuer has the same keys.
type entry struct {
	grant    *auth.Grant
	verifier Verifier
	keys     *keySet
}

// valid returns the Grant of a token, nil if the token is not in the cache or must be verified again.
func (c cache) valid(h tokenHash, now time.Time) *auth.Grant {
	e, ok := c.Get(h)
	switch {
	case !ok:
		return nil
	case e.grant.Expired(now) || e.verifier.keys() != e.keys:
		c.Remove(h)
		return nil
	default:
		return e.grant
	}
}
