package names

import (
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/idtoken"
)

const (
	headKey   = "h."
	packKey   = "m."
	objectKey = "o."
	ownerKey  = "owner."
	forkKey   = "fork."
	turnKey   = "turn."

	packMark = "p" // of the last token of the key of a pack
)

// SnapshotHeadKey returns the key of the snapshot head of s: h.<tenant>.<root>.<session>. The error is a *TokenError.
func SnapshotHeadKey(s chunk.Session) (string, error) {
	return valid(headKey+sessionTokens(s), CheckSession(s))
}

// SnapshotPackKey returns the key of the pack of finished messages of s whose first one is n: m.<tenant>.<root>.<session>.p<n>. The error is a *TokenError.
func SnapshotPackKey(s chunk.Session, n uint64) (string, error) {
	return valid(packKey+sessionTokens(s)+"."+packMark+strconv.FormatUint(n, 10), CheckSession(s))
}

// SnapshotPackOf returns n of a key of SnapshotPackKey; ok is false for other keys.
func SnapshotPackOf(key string) (n uint64, ok bool) {
	digits, marked := strings.CutPrefix(key[strings.LastIndexByte(key, '.')+1:], packMark)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, marked && err == nil && strings.HasPrefix(key, packKey)
}

// SnapshotPackKeys returns the filter m.<tenant>.<root>.<session>.* of all packs of s. The error is a *TokenError.
func SnapshotPackKeys(s chunk.Session) (string, error) {
	return valid(packKey+sessionTokens(s)+".*", CheckSession(s))
}

// SnapshotTreeHeadKeys returns the filter h.<tenant>.<root>.* of the heads of all sessions under the root of s. The error is a *TokenError.
func SnapshotTreeHeadKeys(s chunk.Session) (string, error) {
	return valid(headKey+treeTokens(s)+".*", CheckSession(s.Tree()))
}

// SnapshotTenantHeadKeys returns the filter h.<tenant>.*.* of the heads of all sessions of a tenant. The error is a *TokenError.
func SnapshotTenantHeadKeys(tenant string) (string, error) {
	return valid(headKey+tenant+".*.*", CheckToken("tenant", tenant))
}

// SnapshotHeadKeys returns the filter h.> of all heads.
func SnapshotHeadKeys() string { return headKey + ">" }

// SnapshotObjectKey returns the key that records that s has an object: o.<tenant>.<root>.<session>.<name>. The error is a *TokenError.
func SnapshotObjectKey(s chunk.Session, name string) (string, error) {
	return valid(objectKey+sessionTokens(s)+"."+name, CheckSession(s), CheckToken("object", name))
}

// SnapshotObjectKeys returns the filter o.<tenant>.<root>.<session>.* of all objects of s. The error is a *TokenError.
func SnapshotObjectKeys(s chunk.Session) (string, error) {
	return valid(objectKey+sessionTokens(s)+".*", CheckSession(s))
}

// SnapshotObjectOf returns the name of the object in a key of SnapshotObjectKey; false for other keys.
func SnapshotObjectOf(key string) (string, bool) {
	i := strings.LastIndexByte(key, '.')
	return key[i+1:], strings.HasPrefix(key, objectKey) && i >= len(objectKey)
}

// SnapshotOwnerKey returns the key that records that the root session s has an owner: owner.<tenant>.<root>.<name>. The error is a *TokenError.
func SnapshotOwnerKey(s chunk.Session, name string) (string, error) {
	return valid(ownerKey+treeTokens(s)+"."+name, CheckSession(s.Tree()), CheckToken("owner", name))
}

// SnapshotOwnerKeys returns the filter owner.<tenant>.<root>.* of the keys of SnapshotOwnerKey of s. The error is a *TokenError.
func SnapshotOwnerKeys(s chunk.Session) (string, error) {
	return valid(ownerKey+treeTokens(s)+".*", CheckSession(s.Tree()))
}

// SnapshotForkKey returns the key that records that a root session is a fork of the root session s: fork.<tenant>.<root>.<fork>. The error is a *TokenError.
func SnapshotForkKey(s chunk.Session, fork string) (string, error) {
	return valid(forkKey+treeTokens(s)+"."+idtoken.Of(fork), CheckSession(s.Tree()), CheckID("fork", fork))
}

// SnapshotForkKeys returns the filter fork.<tenant>.<root>.* of the keys of SnapshotForkKey of s. The error is a *TokenError.
func SnapshotForkKeys(s chunk.Session) (string, error) {
	return valid(forkKey+treeTokens(s)+".*", CheckSession(s.Tree()))
}

// LeaseKey returns the key turn.<name> of the lease of a periodic task over all sessions. The error is a *TokenError.
func LeaseKey(name string) (string, error) {
	return valid(turnKey+name, CheckToken("turn", name))
}

// IsLeaseKey reports whether a key is one of LeaseKey.
func IsLeaseKey(key string) bool { return strings.HasPrefix(key, turnKey) }

// LeaseKeys returns the filter turn.* of the keys of LeaseKey.
func LeaseKeys() string { return turnKey + "*" }

// LeaseName returns the name in a key of LeaseKey; false for other keys.
func LeaseName(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, turnKey)
	return name, ok && CheckToken("turn", name) == nil
}

// SnapshotTreeKeys returns the filter *.<tenant>.<root>.> of all keys of all sessions under the root of s. The error is a *TokenError.
func SnapshotTreeKeys(s chunk.Session) (string, error) {
	return valid("*."+treeTokens(s)+".>", CheckSession(s.Tree()))
}

// ParseSnapshotKey returns the session of a key of any kind. The error is a *ParseError.
func ParseSnapshotKey(key string) (chunk.Session, error) {
	kind, rest, _ := strings.Cut(key, ".")
	switch kind + "." {
	case headKey:
		return parseKeySession(key, rest)
	case packKey, objectKey:
		if i := strings.LastIndexByte(rest, '.'); i >= 0 {
			return parseKeySession(key, rest[:i])
		}
	case ownerKey:
		if tenant, root, name, ok := threeTokens(rest); ok && CheckToken("owner", name) == nil {
			return parseKeySession(key, tenant+"."+root+"."+root)
		}
	case forkKey:
		if tenant, root, fork, ok := threeTokens(rest); ok {
			if _, err := parseID("fork", fork); err == nil {
				return parseKeySession(key, tenant+"."+root+"."+root)
			}
		}
	}
	return chunk.Session{}, newParseError(key, "want a key of a head, a message, an object, an owner or a fork", nil)
}

// ParseSnapshotHeadKey is the inverse of SnapshotHeadKey. The error is a *ParseError.
func ParseSnapshotHeadKey(key string) (chunk.Session, error) {
	rest, ok := strings.CutPrefix(key, headKey)
	if !ok {
		return chunk.Session{}, newParseError(key, "want the key h.<tenant>.<root>.<session>", nil)
	}
	return parseKeySession(key, rest)
}

func parseKeySession(key, rest string) (chunk.Session, error) {
	tenant, root, id, ok := threeTokens(rest)
	if !ok {
		return chunk.Session{}, newParseError(key, "want three tokens: tenant, root, session", nil)
	}
	s, err := parseSession(tenant, root, id)
	if err != nil {
		return chunk.Session{}, newParseError(key, err.Error(), err)
	}
	return s, nil
}
