package authn

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// token is a compact JWS that is well formed. Nothing of it is verified.
type token struct {
	raw    string
	claims claims
	alg    string
	kid    string // "" if missing
	typ    string // "" if missing
	issuer string
}

// jsonLimits bound header and claims. The largest tokens of providers have some hundred values, in lists of groups.
var jsonLimits = rawjson.Limits{Levels: 8, Values: 1024, Name: 256}

// refusedHeaders change what is signed or how, or bring a key or the place of one. Keys come from configuration alone, so nothing that is refused here would be
// followed; a token that carries it is made for another kind of verifier.
var refusedHeaders = []string{"crit", "b64", "enc", "zip", "cty", "jwk", "jku", "x5u", "x5c"}

const maxKeyID = 256

// parseToken reads a token that checkCompact accepts.
func parseToken(raw string) (*token, error) {
	head, rest, _ := strings.Cut(raw, ".")
	body, signature, _ := strings.Cut(rest, ".")
	header, err := decodeObject(head)
	if err != nil {
		return nil, err
	}
	t := &token{raw: raw}
	if err := t.readHeader(header); err != nil {
		return nil, err
	}
	if t.claims, err = decodeObject(body); err != nil {
		return nil, err
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(signature); err != nil {
		return nil, invalid(ReasonMalformed)
	}
	if t.issuer, err = t.claims.text("iss"); err != nil || t.issuer == "" {
		return nil, invalid(ReasonIssuer)
	}
	return t, nil
}

// decodeObject returns a JSON object in canonical base64url: of several spellings of the same bytes, one is accepted, so that a token has one hash.
func decodeObject(part string) ([]byte, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, invalid(ReasonMalformed)
	}
	info, ok := rawjson.ScanObject(text, jsonLimits, nil)
	if !ok || info.LoneSurrogate {
		return nil, invalid(ReasonMalformed)
	}
	if rawjson.Duplicate(text) != nil {
		return nil, invalid(ReasonDuplicate)
	}
	return text, nil
}

func (t *token) readHeader(header claims) error {
	for _, name := range refusedHeaders {
		if rawjson.Get(header, name) != nil {
			return invalidMember(ReasonHeader, name)
		}
	}
	var err error
	if t.alg, err = header.text("alg"); err != nil {
		return invalid(ReasonAlgorithm)
	}
	if t.kid, err = header.text("kid"); err != nil || len(t.kid) > maxKeyID {
		return invalidMember(ReasonHeader, "kid")
	}
	if t.typ, err = header.text("typ"); err != nil {
		return invalid(ReasonType)
	}
	return nil
}

// verify checks the signature with one of the keys. They fit the algorithm and the key id.
func (t *token) verify(keys []key) error {
	jws, err := jose.ParseSignedCompact(t.raw, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(t.alg)})
	if err != nil {
		return invalid(ReasonMalformed)
	}
	for _, k := range keys {
		if _, err := jws.Verify(k.material); err == nil {
			return nil
		}
	}
	return invalid(ReasonSignature)
}

// claims are a valid JSON object without duplicate names. Names are compared exactly: "Exp" is another claim than "exp".
type claims []byte

// text returns a claim that is a string, "" if it is missing or empty, and an error for another type.
func (c claims) text(path ...string) (string, error) {
	value := rawjson.Get(c, path...)
	if value == nil {
		return "", nil
	}
	text, err := rawjson.Text(value).Unquote()
	if err != nil {
		return "", invalidMember(ReasonClaim, path[len(path)-1])
	}
	return text, nil
}

// texts returns a claim that is a string or an array of at most limit strings. present is false if it is missing.
func (c claims) texts(limit int, path ...string) (list []string, present bool, err error) {
	value := rawjson.Get(c, path...)
	if value == nil {
		return nil, false, nil
	}
	bad := invalidMember(ReasonClaim, path[len(path)-1])
	if rawjson.Kind(value) != '[' {
		text, err := rawjson.Text(value).Unquote()
		if err != nil {
			return nil, true, bad
		}
		return []string{text}, true, nil
	}
	for element := range rawjson.Elements(value) {
		text, err := rawjson.Text(rawjson.TrimSpace(element)).Unquote()
		if err != nil || len(list) == limit {
			return nil, true, bad
		}
		list = append(list, text)
	}
	return list, true, nil
}

// maxUnix is the end of the year 9999: times up to it can be printed, and the leeway can be added.
const maxUnix = 253402300799

// time returns a claim that is a number of seconds. It accepts integers alone: RFC 7519 allows fractions, but a double of 1e300 or a time in milliseconds is a
// mistake of the issuer. present is false if the claim is missing.
func (c claims) time(name string) (at time.Time, present bool, err error) {
	value := rawjson.Get(c, name)
	if value == nil {
		return time.Time{}, false, nil
	}
	seconds, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil || seconds > maxUnix {
		return time.Time{}, true, invalidMember(ReasonClaim, name)
	}
	return time.Unix(int64(seconds), 0), true, nil
}

// Leeway is how far the clocks of the issuer and of this machine may differ: Grant.ExpiresAt is that much later than exp.
const Leeway = 30 * time.Second

// checkTimes checks exp, nbf and iat, and returns exp and iat. iat is zero if it is missing.
func (c claims) checkTimes(now time.Time) (expires, issued time.Time, err error) {
	expires, present, err := c.time("exp")
	switch {
	case err != nil:
		return expires, issued, err
	case !present:
		return expires, issued, invalidMember(ReasonClaim, "exp")
	case !now.Before(expires.Add(Leeway)):
		return expires, issued, invalid(ReasonExpired)
	}
	for _, name := range []string{"nbf", "iat"} {
		from, present, err := c.time(name)
		switch {
		case err != nil:
			return expires, issued, err
		case present && from.After(now.Add(Leeway)):
			return expires, issued, invalid(ReasonEarly)
		}
		issued = from // iat is the last one
	}
	return expires, issued, nil
}

// maxAudiences bounds the services that a token is for.
const maxAudiences = 32

// checkUse checks that the token is for one of the accepted audiences, and refuses one that is bound to a key of the client: this package does not check that the
// client has that key (RFC 7800, DPoP, mutual TLS), and a bound token that is accepted without the check is worth as much to a thief.
func (c claims) checkUse(audiences []string) error {
	list, _, err := c.texts(maxAudiences, "aud")
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(audience string) bool { return slices.Contains(audiences, audience) }) {
		return invalid(ReasonAudience)
	}
	if rawjson.Get(c, "cnf") != nil {
		return invalidMember(ReasonClaim, "cnf")
	}
	return nil
}

// ParseSessions reads the sessions of a token: "*" for all, "p*" for those with the prefix p, or at most auth.MaxSessionIDs ids.
func ParseSessions(list []string) (auth.Sessions, error) {
	s := auth.Sessions{IDs: list}
	if len(list) == 1 {
		if prefix, ok := strings.CutSuffix(list[0], "*"); ok {
			s = auth.Sessions{All: prefix == "", Prefix: prefix}
		}
	}
	return s, checkConfigured(0, s, nil)
}
