package authn

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// MaxToken bounds a token, in bytes.
const MaxToken = 8 << 10

// queryNames are the parameters, in lower case, in which clients and libraries put tokens.
var queryNames = []string{
	"access_token", "accesstoken", "token", "id_token", "refresh_token", "session_token", "auth_token", "bearer_token", "bearer", "jwt", "auth", "authorization",
	"api_key", "apikey",
}

// hasTokenInQuery reports whether a query has a parameter for tokens, or a value in the form of a token under any name. It accepts every query, also those
// that cannot be parsed: the question is whether to refuse them.
func hasTokenInQuery(query string) bool {
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		if slices.Contains(queryNames, strings.ToLower(unescaped(name))) || looksLikeToken(unescaped(value)) {
			return true
		}
	}
	return false
}

func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return strings.TrimSpace(plain)
	}
	return text
}

// looksLikeToken reports whether text is in the form of a signed or encrypted token: each begins with a JSON object, {" in base64url, and has two dots at least.
func looksLikeToken(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") >= 2
}

// BearerToken returns the token of the header Authorization, "" for a request without that header. Of the token, it checks the size alone.
func BearerToken(h http.Header) (string, error) {
	const scheme = "bearer "
	switch values := h["Authorization"]; {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", invalid(ReasonRepeated)
	case len(values[0]) > len(scheme)+MaxToken:
		return "", invalid(ReasonTooLarge)
	case len(values[0]) <= len(scheme) || !strings.EqualFold(values[0][:len(scheme)], scheme):
		return "", invalid(ReasonScheme)
	default:
		return values[0][len(scheme):], nil
	}
}

// checkCompact refuses what does not have the characters and the parts of a compact JWS.
func checkCompact(token string) error {
	for i := range len(token) {
		if !compactBytes[token[i]] {
			return invalid(ReasonMalformed)
		}
	}
	switch strings.Count(token, ".") {
	case 2:
		return nil
	case 4:
		return invalid(ReasonEncrypted)
	default:
		return invalid(ReasonMalformed)
	}
}

// compactBytes is a table because the branches of comparisons are mispredicted for random text: 5 ns per byte instead of one.
var compactBytes = func() (table [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") {
		table[c] = true
	}
	return table
}()
