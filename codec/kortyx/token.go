package kortyx

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/tailrace/tailrace/chunk"
)

// TokenKey is a secret of the server that resume tokens are derived from. All servers that answer the clients of a session need the same key, of at least 16
// random bytes.
//
// A client of Kortyx answers a question with the token that came with it, and knows nothing else about the request. The token therefore has to be a secret, and
// every server must write the same one for the same record. A random token would have to be stored in the log, which other readers of the session can read. A
// token that is derived from the session and the id of the request, with a key that the log does not have, needs no storage, is the same on every server, and
// can be checked without reading the log. It does not expire: whether the request is still open is for the session to decide. It does not replace the
// authentication of the client.
type TokenKey []byte

// Token returns the resume token of a request. Use it as Options.Token.
func (k TokenKey) Token(s chunk.Session, requestID string) string {
	return base64.RawURLEncoding.EncodeToString(k.sum(s, requestID))
}

// Verify reports whether a client's token is that of a request.
func (k TokenKey) Verify(s chunk.Session, requestID, token string) bool {
	sum, err := base64.RawURLEncoding.Strict().DecodeString(token)
	return err == nil && len(k) > 0 && hmac.Equal(sum, k.sum(s, requestID))
}

func (k TokenKey) sum(s chunk.Session, requestID string) []byte {
	mac := hmac.New(sha256.New, k)
	text := []byte("kortyx resume token")
	for _, part := range []string{s.Tenant, s.Root, s.ID, requestID} { // lengths keep two requests from having the same text
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	mac.Write(text)
	return mac.Sum(nil)
}
