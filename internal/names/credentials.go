package names

import (
	"crypto/sha256"
	"encoding/hex"
)

// Credentials returns the name of the key-value bucket with the revocations and the tickets of an edge: TR_CREDENTIALS.
func (l Layout) Credentials() string { return l.name("_CREDENTIALS") }

// RevokedTokenKey returns the key of the revocation of one token: revoked.<tenant>.token.<id>. An issuer chooses the id of a token freely, so its token
// is the first half of the id's SHA-256 in hex. The error is a *TokenError.
func RevokedTokenKey(tenant, id string) (string, error) { return revokedKey(tenant, "token", id) }

// RevokedSubjectKey returns the key of the revocation of all credentials of a subject: revoked.<tenant>.subject.<subject>, with a hash as in
// RevokedTokenKey. The error is a *TokenError.
func RevokedSubjectKey(tenant, subject string) (string, error) {
	return revokedKey(tenant, "subject", subject)
}

// RevocationKeys returns the filter of all revocations: revoked.>.
func RevocationKeys() string { return revokedToken + ">" }

// RevocationTenantKeys returns the filter of the revocations of a tenant: revoked.<tenant>.>. The error is a *TokenError.
func RevocationTenantKeys(tenant string) (string, error) {
	return valid(revokedToken+tenant+".>", CheckToken("tenant", tenant))
}

// TicketKey returns the key of a ticket: ticket.<id>, with a hash as in RevokedTokenKey, so that a client that can list the keys cannot spend tickets.
func TicketKey(id string) string { return ticketToken + hashToken(id) }

// TicketKeys returns the filter of all tickets: ticket.*.
func TicketKeys() string { return ticketToken + "*" }

const (
	revokedToken = "revoked."
	ticketToken  = "ticket."
)

func revokedKey(tenant, kind, name string) (string, error) {
	return valid(revokedToken+tenant+"."+kind+"."+hashToken(name), CheckToken("tenant", tenant))
}

// hashToken returns a token for a name that anyone chooses: the first half of its SHA-256 in hex.
func hashToken(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:len(sum)/2])
}
